/** A clock for simulations: time passes only when everybody sleeps. */
import type { Clock } from '../../src/limits/table.ts';

export class VirtualClock implements Clock {
  #now = Date.UTC(2026, 10, 20, 12);
  /** Those who sleep, by the time at which they wake. */
  readonly #sleepers = new Map<number, (() => void)[]>();
  /** Those times, the next one last. */
  readonly #times: number[] = [];
  /** What ends the sleeps of a signal. It has one listener: an `AbortSignal` compares a new one with all that it has. */
  readonly #canceled = new WeakMap<AbortSignal, Set<() => void>>();

  readonly #idle: () => Promise<void>;

  /** @param idle ends when nothing is under way that needs no time, such as a request */
  constructor(idle: () => Promise<void> = () => new Promise((resolve) => setImmediate(resolve))) {
    this.#idle = idle;
  }

  now = (): number => this.#now;

  sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      // Whole milliseconds, so that many wake together and the simulation is fast.
      const at = Math.ceil(this.#now + Math.max(0, ms));
      const cancel = (): void => reject(signal?.reason);
      const cancels = signal && this.#cancelsOf(signal);
      cancels?.add(cancel);
      this.#wakeAt(at, () => {
        cancels?.delete(cancel);
        resolve();
      });
    });

  #wakeAt(at: number, wake: () => void): void {
    const others = this.#sleepers.get(at);
    if (others !== undefined) {
      others.push(wake);
      return;
    }
    this.#sleepers.set(at, [wake]);
    let low = 0;
    let high = this.#times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#times[middle] ?? 0) > at) low = middle + 1;
      else high = middle;
    }
    this.#times.splice(low, 0, at);
  }

  #cancelsOf(signal: AbortSignal): Set<() => void> {
    const known = this.#canceled.get(signal);
    if (known !== undefined) return known;
    const cancels = new Set<() => void>();
    this.#canceled.set(signal, cancels);
    const all = (): void => {
      for (const cancel of cancels) cancel();
    };
    signal.addEventListener('abort', all, { once: true });
    return cancels;
  }

  /** Lets this much time pass. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      // What needs no time happens first.
      await this.#idle();
      const at = this.#times.at(-1) ?? Number.POSITIVE_INFINITY;
      if (at > end) break;
      this.#times.pop();
      this.#now = Math.max(this.#now, at);
      const due = this.#sleepers.get(at) ?? [];
      this.#sleepers.delete(at);
      for (const wake of due) wake();
    }
    this.#now = end;
  }
}
