/** Opens connections before they are needed: a burst that has to connect first arrives late, and is measured slow. */
import type { ConnectionPool } from '../http/pool.ts';
import type { Dispatcher } from './dispatcher.ts';

const INTERVAL_MS = 100;
/** Connections are opened this long before the requests that need them. */
const AHEAD_MS = 1_500;
/** Opening one takes about 50 µs of this process: 128 of them hold it up for 6 ms. */
const AT_A_TIME = 128;
/** More than that is no client any more. */
const MAX_WARM = 4096;
/** Assumed time to a reply while none has been seen. */
const FIRST_LATENCY_MS = 100;
/** Weight of a new reply in the moving average. */
const WEIGHT = 0.05;
const SWEEP_EVERY = 10;
/** A request that has been under way for so many times the usual latency, and at least so long, may keep its connection. */
const SLOW_LATENCIES = 3;
const SLOW_MS = 300;

export interface ConnectionNeed {
  /** Most requests that will be due within the time that a reply takes. */
  peak: number;
  inFlight: number;
  /** Of those in flight, the ones that have not been long. */
  young: number;
  /** Until the next request is due. */
  nextMs: number;
  /** Time to a reply. */
  latencyMs: number;
  /** Requests under way at most. */
  limit: number;
}

/**
 * Connections that should be spare now. Those of a burst that is under way are free again when the next one comes: opened
 * beside them, twice the connections would be open, and the target would accept them while it answers the burst.
 */
export function sparesNeeded({ peak, inFlight, young, nextMs, latencyMs, limit }: ConnectionNeed): number {
  const returning = nextMs > latencyMs ? young : 0;
  return Math.max(0, Math.min(peak - returning, limit - inFlight));
}

export class Warmer {
  readonly #pool: ConnectionPool;
  readonly #dispatcher: Dispatcher;
  readonly #limit: number;
  #latencyMs = FIRST_LATENCY_MS;
  #timer: NodeJS.Timeout | undefined;
  #rounds = 0;

  constructor(pool: ConnectionPool, dispatcher: Dispatcher, maxConcurrency: number) {
    this.#pool = pool;
    this.#dispatcher = dispatcher;
    this.#limit = Math.min(MAX_WARM, maxConcurrency);
  }

  observe(latencyMs: number): void {
    this.#latencyMs += WEIGHT * (latencyMs - this.#latencyMs);
  }

  /**
   * Opens all that the first seconds need, before the clock starts.
   *
   * @param firstDueMs when the first request is due
   */
  async beforeStart(firstDueMs: number, concurrency?: number): Promise<void> {
    const needed = concurrency ?? this.#dispatcher.queue.peak(this.#latencyMs, firstDueMs + AHEAD_MS);
    this.#pool.warm(Math.min(this.#limit, needed));
    await this.#pool.warmed();
  }

  /** @param elapsedMs time since the clock's start */
  start(elapsedMs: () => number): void {
    this.#timer = setInterval(() => {
      if (++this.#rounds % SWEEP_EVERY === 0) this.#pool.sweep();
      const { inFlight, queue } = this.#dispatcher;
      const now = performance.now();
      const needed = sparesNeeded({
        peak: queue.peak(this.#latencyMs, elapsedMs() + AHEAD_MS),
        inFlight,
        young: this.#dispatcher.youngInFlight(now, Math.max(SLOW_MS, SLOW_LATENCIES * this.#latencyMs)),
        nextMs: this.#dispatcher.slack(now),
        latencyMs: this.#latencyMs,
        limit: this.#limit,
      });
      this.#pool.warm(needed, AT_A_TIME);
    }, INTERVAL_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
