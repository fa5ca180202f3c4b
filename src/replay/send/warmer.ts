/** Opens connections before they are needed: a burst that has to connect first arrives late, and is measured slow. */
import type { ConnectionPool } from '../http/pool.ts';
import type { Dispatcher } from './dispatcher.ts';

const INTERVAL_MS = 20;
/** Connections are opened this long before the requests that need them. */
const AHEAD_MS = 1_500;
/**
 * Opened in one interval at most: opening one takes this process about 50 µs, with TLS about a millisecond, and all that
 * is due meanwhile waits. 1,600 and 400 a second.
 */
const AT_A_TIME = 32;
const AT_A_TIME_TLS = 8;
/** More than that is no client any more. */
const MAX_WARM = 4096;
/** Assumed time to a reply while none has been seen. */
const FIRST_LATENCY_MS = 100;
/** Weight of a new reply in the moving average. */
const WEIGHT = 0.05;
/** What will be idle for too long within this time is closed, and opened anew where it is needed: a burst finds it open. */
const SWEEP_AHEAD_MS = 200;
const SWEEP_EVERY = 5;
/** A request that has been under way for so many times the usual latency, and at least so long, may keep its connection. */
const SLOW_LATENCIES = 3;
const SLOW_MS = 300;
/** Where connections are lost unused none is opened ahead for a while, which doubles as long as no reply comes. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** The clock starts without connections that take longer to open. */
const OPENING_MS = 5_000;

export interface ConnectionNeed {
  /** Requests that are due before those under way will have come back. */
  soon: number;
  /** Most requests that will be due within the time that a reply takes. */
  peak: number;
  inFlight: number;
  /** Of those in flight, the ones that have not been long. */
  young: number;
  /** Requests under way at most. */
  limit: number;
}

/**
 * Connections that should be spare now. Those of a burst that is under way are free again when the next one comes: opened
 * beside them, twice the connections would be open, and the target would accept them while it answers the burst. A burst
 * that is half sent counts with both halves: what is left of it needs a connection each, and the next one as many as come
 * back and are left.
 */
export function sparesNeeded({ soon, peak, inFlight, young, limit }: ConnectionNeed): number {
  return Math.max(0, Math.min(Math.max(soon, peak - young), limit - inFlight));
}

export class Warmer {
  readonly #pool: ConnectionPool;
  readonly #dispatcher: Dispatcher;
  readonly #limit: number;
  readonly #atATime: number;
  #latencyMs = FIRST_LATENCY_MS;
  #timer: NodeJS.Timeout | undefined;
  #rounds = 0;
  /** Connections that were opened ahead for nothing. */
  #lost = 0;
  #pauseMs = 0;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(pool: ConnectionPool, dispatcher: Dispatcher, maxConcurrency: number) {
    this.#pool = pool;
    this.#dispatcher = dispatcher;
    this.#limit = Math.min(MAX_WARM, maxConcurrency);
    this.#atATime = pool.tls ? AT_A_TIME_TLS : AT_A_TIME;
  }

  observe(latencyMs: number): void {
    this.#latencyMs += WEIGHT * (latencyMs - this.#latencyMs);
    this.#pauseMs = 0;
  }

  /**
   * Opens all that the first seconds need, before the clock starts.
   *
   * @param firstDueMs when the first request is due, by the schedule
   * @param untilFirstMs time until then. Where it is long nothing is opened yet: it would be idle for too long
   * @param concurrency requests that are sent at once where there is no schedule
   */
  async beforeStart(firstDueMs: number, untilFirstMs: number, concurrency?: number): Promise<void> {
    if (untilFirstMs > AHEAD_MS) return;
    const needed = concurrency ?? this.#dispatcher.queue.peak(this.#latencyMs, firstDueMs + AHEAD_MS);
    this.#pool.warm(Math.min(this.#limit, needed));
    await this.#pool.warmed(OPENING_MS);
  }

  /**
   * @param elapsedMs time since the clock's start; negative before it
   * @param firstDueMs when the first request is due, by the schedule
   */
  start(elapsedMs: () => number, firstDueMs: number): void {
    this.#timer = setInterval(() => {
      if (++this.#rounds % SWEEP_EVERY === 0) this.#sweep();
      if (this.#isPaused(performance.now())) return;
      const { inFlight, queue } = this.#dispatcher;
      const elapsed = elapsedMs();
      if (elapsed < firstDueMs - AHEAD_MS) return;
      // Where the target soon closes what is idle, connections are no good long before they are needed.
      const ahead = Math.min(AHEAD_MS, this.#pool.idleLimitMs / 2);
      const needed = sparesNeeded({
        soon: queue.dueBefore(elapsed + Math.min(this.#latencyMs, ahead)),
        peak: queue.peak(this.#latencyMs, elapsed + ahead),
        inFlight,
        young: this.#dispatcher.youngInFlight(performance.now(), Math.max(SLOW_MS, SLOW_LATENCIES * this.#latencyMs)),
        limit: this.#limit,
      });
      this.#pool.warm(needed, this.#atATime);
    }, INTERVAL_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** A target that refuses, or accepts and closes, gets no hail of connections. */
  #isPaused(now: number): boolean {
    const lost = this.#pool.warmFailures + this.#pool.unused;
    if (lost > this.#lost) {
      this.#pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, 2 * this.#pauseMs));
      this.#pausedUntil = now + this.#pauseMs;
    }
    this.#lost = lost;
    return now < this.#pausedUntil;
  }

  #sweep(): void {
    this.#pool.sweep(performance.now() + Math.min(SWEEP_AHEAD_MS, this.#pool.idleLimitMs / 4));
  }
}
