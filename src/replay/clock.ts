/** One clock for a run: the monotonic `performance.now()`, tied once to the wall clock. */

const NS_DIGITS = 6;
const NS_PER_MS = 1e6;

export class RunClock {
  /** Epoch milliseconds at `performance.now() === 0`. */
  readonly #originMs: number;

  /**
   * The tie is made when the run starts, not when the process did: a Lambda's process may have slept since.
   *
   * @param originMs for tests
   */
  constructor(originMs: number = wallOrigin()) {
    this.#originMs = originMs;
  }

  now(): number {
    return performance.now();
  }

  /** Epoch milliseconds, with fractions, of a time of `performance.now()`. */
  epochMs(at: number): number {
    return this.#originMs + at;
  }

  /** The time of `performance.now()` at an epoch time. */
  at(epochMs: number): number {
    return epochMs - this.#originMs;
  }

  /**
   * Epoch nanoseconds in decimal digits: as a number they would lose their last three. Whole and broken milliseconds are
   * added apart for the same reason.
   */
  epochNs(at: number): string {
    const originWhole = Math.floor(this.#originMs);
    const atWhole = Math.floor(at);
    const broken = Math.round((this.#originMs - originWhole + (at - atWhole)) * NS_PER_MS);
    const carried = broken >= NS_PER_MS ? 1 : 0;
    const whole = originWhole + atWhole + carried;
    return `${whole}${String(broken - carried * NS_PER_MS).padStart(NS_DIGITS, '0')}`;
  }
}

/** `Date.now()` has whole milliseconds: its next step is awaited, which takes one millisecond at most. */
function wallOrigin(): number {
  const before = Date.now();
  let now = Date.now();
  while (now === before) now = Date.now();
  return now - performance.now();
}
