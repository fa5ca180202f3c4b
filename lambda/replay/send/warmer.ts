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
      const peak = this.#dispatcher.queue.peak(this.#latencyMs, elapsedMs() + AHEAD_MS);
      const room = this.#limit - this.#dispatcher.inFlight;
      this.#pool.warm(Math.min(peak, room), AT_A_TIME);
    }, INTERVAL_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
