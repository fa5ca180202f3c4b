/** Confidence intervals of the differences of two runs, by a percentile bootstrap. */
import { Random } from '../../shared/random.ts';
import { type Estimate, wilson } from '../../shared/statistics/share.ts';

export const STATISTICS = ['mean', 'p50', 'p90', 'p95', 'p99'] as const;
export type Statistic = (typeof STATISTICS)[number];

export interface Difference {
  before: number;
  after: number;
  /** after − before */
  difference: number;
  /** difference ÷ before; `null` when before is 0. */
  relative: number | null;
  /** 95% confidence interval of the difference. */
  low: number;
  high: number;
  /** The interval does not contain 0, and there are enough values for it. */
  significant: boolean;
  /** Set if there are too few values for a meaningful interval. */
  tooFew?: true;
}

const QUANTILES: readonly [Statistic, number][] = [
  ['p50', 0.5],
  ['p90', 0.9],
  ['p95', 0.95],
  ['p99', 0.99],
];

/** With this many resamples, the ends of a 95% interval are the 25th values from either side. */
const RESAMPLES = 1000;
/** Of more values than this, a sample is used. The intervals get wider by that, never narrower. */
const MAX_VALUES = 20_000;
const CONFIDENCE = 0.95;
/**
 * Fewest values for each statistic. Five pairs all differ in one direction by chance once in 16 times; six, once in 32.
 * With fewer than five values beyond a quantile, nearly all its resamples are the same few values: a fifth of equal runs
 * would differ "significantly".
 */
export const NEEDED_VALUES: Readonly<Record<Statistic, number>> = { mean: 6, p50: 10, p90: 50, p95: 100, p99: 500 };

/** The factor by which a percentile interval of a mean is too narrow: Student's and that of n − 1. */
const widened = (values: number): number => (1 + 1.25 / (values - 1)) * Math.sqrt(values / (values - 1));

/** Values with their sort order, so that the quantiles of a resample need no sorting. */
class Sorted {
  readonly values: Float64Array;
  readonly #order: Uint32Array;
  /** Ranks of the quantiles among the sorted values, from 1. */
  readonly #ranks: number[];

  constructor(values: Float64Array) {
    this.values = values;
    this.#order = Uint32Array.from(values.keys()).sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0));
    this.#ranks = QUANTILES.map(([, share]) => Math.ceil(share * values.length));
  }

  /** Returns mean and quantiles of a resample that has value i `counts[i]` times. */
  statistics(counts: Uint32Array): number[] {
    const total = this.values.length;
    let sum = 0;
    for (let i = 0; i < total; i++) sum += (counts[i] ?? 0) * (this.values[i] ?? 0);
    const found = [sum / total];
    let seen = 0;
    let i = -1;
    for (const rank of this.#ranks) {
      while (seen < rank) seen += counts[this.#order[++i] ?? 0] ?? 0;
      found.push(this.values[this.#order[i] ?? 0] ?? 0);
    }
    return found;
  }
}

function resample(size: number, counts: Uint32Array, random: Random): void {
  counts.fill(0);
  for (let i = 0; i < size; i++) {
    const at = random.below(size);
    counts[at] = (counts[at] ?? 0) + 1;
  }
}

/** Draws a sample without replacement, with the same positions for all lists. */
function sampled(lists: Float64Array[], random: Random): Float64Array[] {
  const size = lists[0]?.length ?? 0;
  if (size <= MAX_VALUES) return lists;
  const order = Uint32Array.from({ length: size }, (_, i) => i);
  for (let i = 0; i < MAX_VALUES; i++) {
    const other = i + random.below(size - i);
    [order[i], order[other]] = [order[other] ?? 0, order[i] ?? 0];
  }
  return lists.map((list) => Float64Array.from({ length: MAX_VALUES }, (_, i) => list[order[i] ?? 0] ?? 0));
}

/**
 * Returns the differences of all statistics, or `undefined` if a list is empty.
 *
 * @param paired value i of both lists belongs to the same request: pairs are drawn together, which cancels out what the
 * requests have in common
 */
export function bootstrapDifferences(
  before: Float64Array,
  after: Float64Array,
  paired: boolean,
  seed = 1,
): Record<Statistic, Difference> | undefined {
  if (before.length === 0 || after.length === 0) return undefined;
  const random = new Random(seed);
  const [a, b] = (
    paired ? sampled([before, after], random) : [...sampled([before], random), ...sampled([after], random)]
  ) as [Float64Array, Float64Array];
  const left = new Sorted(a);
  const right = new Sorted(b);
  const drawn: number[][] = STATISTICS.map(() => []);
  const countsA = new Uint32Array(a.length);
  const countsB = paired ? countsA : new Uint32Array(b.length);
  for (let i = 0; i < RESAMPLES; i++) {
    resample(a.length, countsA, random);
    if (!paired) resample(b.length, countsB, random);
    const from = left.statistics(countsA);
    const to = right.statistics(countsB);
    for (const [s, values] of drawn.entries()) values.push((to[s] ?? 0) - (from[s] ?? 0));
  }
  // The point estimates are of all values, not of the sample.
  const one = (values: Float64Array): number[] => new Sorted(values).statistics(new Uint32Array(values.length).fill(1));
  const from = one(before);
  const to = one(after);
  const entries = STATISTICS.map((statistic, s): [Statistic, Difference] => {
    const sorted = (drawn[s] ?? []).sort((x, y) => x - y);
    const tail = Math.floor((RESAMPLES * (1 - CONFIDENCE)) / 2);
    const values = Math.min(before.length, after.length);
    const enough = values >= NEEDED_VALUES[statistic];
    const start = from[s] ?? 0;
    const end = to[s] ?? 0;
    const difference = end - start;
    const relative = start === 0 ? null : difference / start;
    const factor = statistic === 'mean' && values > 1 ? widened(values) : 1;
    const low = difference + ((sorted[tail] ?? 0) - difference) * factor;
    const high = difference + ((sorted[RESAMPLES - 1 - tail] ?? 0) - difference) * factor;
    const significant = enough && (low > 0 || high < 0);
    const found = { before: start, after: end, difference, relative, low, high, significant };
    return [statistic, enough ? found : { ...found, tooFew: true }];
  });
  return Object.fromEntries(entries) as Record<Statistic, Difference>;
}

/** Wilson's interval; without requests, the share may be anything. */
const shareOf = (hits: number, of: number): Estimate => wilson(hits, of) ?? { value: 0, low: 0, high: 1 };

/** Returns the difference of two shares (count, total). Newcombe's 95% interval also holds for small counts. */
export function shareDifference(before: [number, number], after: [number, number]): Difference {
  const a = shareOf(...before);
  const b = shareOf(...after);
  const difference = b.value - a.value;
  const low = difference - Math.hypot(b.value - b.low, a.high - a.value);
  const high = difference + Math.hypot(b.high - b.value, a.value - a.low);
  const relative = a.value === 0 ? null : difference / a.value;
  return { before: a.value, after: b.value, difference, relative, low, high, significant: low > 0 || high < 0 };
}
