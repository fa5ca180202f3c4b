/**
 * A cumulative sum over cases that pass or fail (Page 1954, Reynolds and Stoumbos 1999): it adds up the evidence that more
 * fail than should, and forgets evidence to the contrary. It moves on whole numbers, so that the mean number of cases until
 * it raises an alarm follows exactly from a system of linear equations (Brook and Evans 1972).
 */
import { smallestSize } from './power.ts';

export interface Cusum {
  /** A failed case adds this, and a passed one subtracts `down`; the sum is never below 0. */
  up: number;
  down: number;
  /** The sum at which an alarm is raised. */
  limit: number;
}

/** Returns the sum after one more case. */
export const nextSum = ({ up, down }: Cusum, sum: number, isFailed: boolean): number =>
  isFailed ? sum + up : Math.max(0, sum - down);

/** Relative error of the share at which the sum neither rises nor falls, because the steps are whole numbers. */
const STEP_ERROR = 0.02;

/**
 * Designs the sum that finds the change of the failing share from `good` to `bad` soonest, among all that raise false alarms no
 * more often.
 *
 * @param good, bad shares of the cases that fail, `good < bad`
 * @param runLength the mean number of cases until a false alarm, at least, if the share is `good`
 *
 * @example
 *     designCusum(0.05, 0.1, 10_000)   // { up: 13, down: 1, limit: 95 }
 */
export function designCusum(good: number, bad: number, runLength: number): Cusum {
  const steps = stepsFor(good, bad);
  const isLong = (limit: number): boolean => meanRunLength({ ...steps, limit }, good) >= runLength;
  return { ...steps, limit: smallestSize(1, Number.POSITIVE_INFINITY, isLong) as number };
}

/** Returns the smallest whole steps in about the ratio of the log-likelihood ratios of a failed and a passed case. */
function stepsFor(good: number, bad: number): Pick<Cusum, 'up' | 'down'> {
  const passed = Math.log((1 - good) / (1 - bad));
  const level = passed / (passed + Math.log(bad / good));
  for (let total = 2; ; total += 1) {
    const down = Math.min(total - 1, Math.max(1, Math.round(level * total)));
    if (Math.abs(down / total - level) <= STEP_ERROR * Math.min(level, 1 - level)) return { up: total - down, down };
  }
}

/**
 * Returns the mean number of cases until the sum raises an alarm.
 *
 * @param share of the cases that fail; they are independent
 * @param from the sum at the beginning
 */
export function meanRunLength({ up, down, limit }: Cusum, share: number, from = 0): number {
  // Row `s`: n(s) − share × n(s + up) − (1 − share) × n(s − down) = 1. All entries are in this band, even after
  // elimination.
  const width = down + 1 + up;
  const band = new Float64Array(limit * width);
  const right = new Float64Array(limit).fill(1);
  const at = (row: number, column: number): number => row * width + column - row + down;
  const add = (row: number, column: number, value: number): void => {
    if (column < limit) band[at(row, column)] = (band[at(row, column)] ?? 0) + value;
  };
  for (let row = 0; row < limit; row += 1) {
    add(row, row, 1);
    add(row, row + up, -share);
    add(row, Math.max(0, row - down), share - 1);
  }
  for (let pivot = 0; pivot < limit; pivot += 1) {
    const end = Math.min(limit - 1, pivot + up);
    for (let row = pivot + 1; row <= Math.min(limit - 1, pivot + down); row += 1) {
      const factor = (band[at(row, pivot)] ?? 0) / (band[at(pivot, pivot)] ?? 1);
      if (factor === 0) continue;
      for (let column = pivot + 1; column <= end; column += 1)
        add(row, column, -factor * (band[at(pivot, column)] ?? 0));
      right[row] = (right[row] ?? 0) - factor * (right[pivot] ?? 0);
    }
  }
  for (let row = limit - 1; row >= 0; row -= 1) {
    let value = right[row] ?? 0;
    for (let column = row + 1; column <= Math.min(limit - 1, row + up); column += 1) {
      value -= (band[at(row, column)] ?? 0) * (right[column] ?? 0);
    }
    right[row] = value / (band[at(row, row)] ?? 1);
  }
  return right[from] ?? 0;
}
