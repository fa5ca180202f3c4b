/** One clock for a run: the monotonic `performance.now()`, tied once to the wall clock. */

const NS_DIGITS = 6;

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

  /** Epoch nanoseconds in decimal digits: as a number they would lose their last three. */
  epochNs(at: number): string {
    const ms = this.#originMs + at;
    const whole = Math.floor(ms);
    return `${whole}${String(Math.floor((ms - whole) * 1e6)).padStart(NS_DIGITS, '0')}`;
  }
}

/** `Date.now()` has whole milliseconds: its next step is awaited, which takes one millisecond at most. */
function wallOrigin(): number {
  const before = Date.now();
  let now = Date.now();
  while (now === before) now = Date.now();
  return now - performance.now();
}
