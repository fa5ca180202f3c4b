/** A clock for simulations: time passes only when everybody sleeps. */
import type { Clock } from '../../src/gate/clock.ts';

export class VirtualClock implements Clock {
  #now: number;
  /** Those who sleep, by the time at which they wake. */
  readonly #sleepers = new Map<number, (() => void)[]>();

  constructor(now = Date.UTC(2026, 10, 20, 12)) {
    this.#now = now;
  }

  now = (): number => this.#now;

  sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      // Whole milliseconds, so that many wake together and the simulation is fast.
      const at = Math.ceil(this.#now + Math.max(0, ms));
      const others = this.#sleepers.get(at);
      if (others === undefined) this.#sleepers.set(at, [resolve]);
      else others.push(resolve);
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
    });

  /** Lets this much time pass. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      // What needs no time happens first.
      await new Promise((resolve) => setImmediate(resolve));
      let at = Number.POSITIVE_INFINITY;
      for (const time of this.#sleepers.keys()) at = Math.min(at, time);
      if (at > end) break;
      this.#now = Math.max(this.#now, at);
      const due = this.#sleepers.get(at) ?? [];
      this.#sleepers.delete(at);
      for (const wake of due) wake();
    }
    this.#now = end;
  }
}
