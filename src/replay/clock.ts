/** The clock of a run: the monotonic `performance.now()`, aligned once with the wall clock. */

const NS_DIGITS = 6;
const NS_PER_MS = 1e6;

export type RunClock = ReturnType<typeof runClock>;

/**
 * Aligns the clocks now, not at the start of the process: a Lambda's process may have been suspended since.
 *
 * @param originMs epoch milliseconds at `performance.now() === 0`; set by tests
 */
export function runClock(originMs = wallOrigin()) {
  return {
    /** Converts a time of `performance.now()` to epoch milliseconds with fractions. */
    epochMs: (at: number): number => originMs + at,
    /** Converts an epoch time to a time of `performance.now()`. */
    at: (epochMs: number): number => epochMs - originMs,
    /**
     * Converts a time of `performance.now()` to epoch nanoseconds in decimal digits. A number would lose the last three digits;
     * for the same reason whole and fractional milliseconds are added separately.
     */
    epochNs: (at: number): string => {
      const originWhole = Math.floor(originMs);
      const atWhole = Math.floor(at);
      const fraction = Math.round((originMs - originWhole + (at - atWhole)) * NS_PER_MS);
      const carried = fraction >= NS_PER_MS ? 1 : 0;
      const whole = originWhole + atWhole + carried;
      return `${whole}${String(fraction - carried * NS_PER_MS).padStart(NS_DIGITS, '0')}`;
    },
  };
}

/** `Date.now()` has whole milliseconds, so this waits for its next step: at most one millisecond. */
function wallOrigin(): number {
  const before = Date.now();
  let now = Date.now();
  while (now === before) now = Date.now();
  return now - performance.now();
}
