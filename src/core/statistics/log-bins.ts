/**
 * Numbers in sparse bins of constant relative width. Only nonempty bins have a count, and bins add and subtract like
 * all counts. The middle of a bin is at most 2% off.
 */
import { sum } from '../values/sum.ts';

/** Counts by the index of a bin. Indexes have the order of the numbers: 0 is zero, and −n has the numbers of n with the other sign. */
export type LogBins = Record<string, number>;

const RELATIVE_ERROR = 0.02;
const RATIO = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR);
/** Smaller numbers are in the bin of zero. */
const SMALLEST = 1e-6;
/**
 * Enough for a gapless range whose largest number is 750 million times its smallest, such as a millisecond and a day.
 */
const MAX_BINS = 512;

/** Returns the index of the bin that a number is in. */
export function binOf(number: number): number {
  const size = Math.abs(number);
  if (!(size >= SMALLEST)) return 0;
  return Math.sign(number) * (Math.floor(Math.log(size / SMALLEST) / Math.log(RATIO)) + 1);
}

/**
 * Returns the nonempty bins, sorted: their range from `low` to `high`, the number that represents them, and their
 * count. A count may be negative if counts of a run are gone.
 */
export const binsIn = (bins: LogBins) =>
  indexesOf(bins).flatMap((index) => {
    const count = bins[index] ?? 0;
    if (count <= 0) return [];
    if (index === 0) return [{ low: -SMALLEST, high: SMALLEST, value: 0, count }];
    const near = SMALLEST * RATIO ** (Math.abs(index) - 1);
    const [low, high] = index > 0 ? [near, near * RATIO] : [-near * RATIO, -near];
    return [{ low, high, value: Math.sign(index) * near * (1 + RELATIVE_ERROR), count }];
  });

const indexesOf = (bins: LogBins): number[] =>
  Object.keys(bins)
    .map(Number)
    .toSorted((a, b) => a - b);

/** Returns how many numbers there are. */
export const countOf = (bins: LogBins): number => sum(Object.values(bins));

/** Returns the smallest number that a share of all does not exceed, as replays do: the median for 0.5; `undefined` without numbers. */
export function quantileOf(bins: LogBins, share: number): number | undefined {
  const known = binsIn(bins);
  let left = Math.ceil(share * sum(known.map(({ count }) => count))) - 1;
  for (const { value, count } of known) {
    if (left < count) return value;
    left -= count;
  }
  return known.at(-1)?.value;
}

/**
 * Moves the counts of the lowest bins into the next bin until the number of bins is within its limit, because callers
 * can send numbers of any size.
 */
export function boundBins(bins: LogBins): void {
  if (Object.keys(bins).length <= MAX_BINS) return;
  const indexes = indexesOf(bins);
  const kept = indexes[indexes.length - MAX_BINS] ?? 0;
  for (const index of indexes.slice(0, -MAX_BINS)) {
    bins[kept] = (bins[kept] ?? 0) + (bins[index] ?? 0);
    delete bins[index];
  }
}
