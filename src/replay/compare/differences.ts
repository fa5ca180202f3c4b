/** The differences of two runs, with their 95% intervals. */

import type { Bounds, SizedBounds } from '../../core/statistics/bounds.ts';
import { mean, meanDifference, NEEDED_FOR_MEAN } from '../../core/statistics/mean-difference.ts';
import { neededForQuantile, QuantileDifferences } from '../../core/statistics/quantile-difference.ts';
import { independentDifference } from '../../core/statistics/share-difference.ts';

export const STATISTICS = ['mean', 'p50', 'p90', 'p95', 'p99'] as const;
export type Statistic = (typeof STATISTICS)[number];

export interface Difference {
  before: number;
  after: number;
  /** after − before */
  difference: number;
  /** difference ÷ before; `null` when before is 0. */
  relative: number | null;
  /**
   * Lower end of the 95% confidence interval. Infinite with too few values, and then `null` in JSON.
   * @nullable
   */
  low: number;
  /** @nullable */
  high: number;
  /** The interval does not contain 0. */
  significant: boolean;
  /** Set if there are too few values for an interval. */
  tooFew?: true;
}

const QUANTILES = { p50: 0.5, p90: 0.9, p95: 0.95, p99: 0.99 } as const satisfies Partial<Record<Statistic, number>>;

/** Fewest values that have an interval. */
export const neededValues = (statistic: Statistic): number =>
  statistic === 'mean' ? NEEDED_FOR_MEAN : neededForQuantile(QUANTILES[statistic]);

/** Value i of both lists belongs to the same request. A failed request is infinite, behind every success. */
export interface MetricValues {
  before: Float64Array;
  after: Float64Array;
  /** The times until requests failed, by their index. */
  own?: readonly [before: ReadonlyMap<number, number>, after: ReadonlyMap<number, number>];
}

/** Returns a difference with its bounds at any level. `relative`: after ÷ before − 1. */
export const metricBounds = (values: MetricValues, statistic: Statistic, relative: boolean): SizedBounds =>
  statistic === 'mean'
    ? rankedMean(values, relative)
    : new QuantileDifferences(values.before, values.after).bounds(QUANTILES[statistic], relative);

/** The statistic of both runs. A quantile that is a failed request is infinite. */
export const statisticsOf = (values: MetricValues, statistic: Statistic): [before: number, after: number] =>
  statistic === 'mean'
    ? (asNumbers(values).map(mean) as [number, number])
    : new QuantileDifferences(values.before, values.after).quantiles(QUANTILES[statistic]);

/** From this share of failed requests on, too much of the mean is made up. */
const MOST_MADE_UP = 0.05;

/** Whether so many requests of the first run failed that its mean is not meaningful. */
export const isMadeUp = ({ before }: MetricValues): boolean =>
  before.filter((value) => !Number.isFinite(value)).length >= MOST_MADE_UP * before.length;

/** The values of the requests that succeeded in both runs. */
function succeeded({ before, after }: MetricValues): MetricValues {
  const isKnown = (_: number, i: number): boolean => Number.isFinite(before[i]) && Number.isFinite(after[i]);
  return { before: before.filter(isKnown), after: after.filter(isKnown) };
}

/**
 * Replaces failed requests by numbers, for a mean: their time is the longest time of both runs, or their own if that is
 * longer. Their throughput is 0.
 */
function asNumbers({ before, after, own }: MetricValues): Float64Array[] {
  let longest = 0;
  for (const values of [before, after]) for (const one of values) if (one < Infinity) longest = Math.max(longest, one);
  return [before, after].map((values, run) =>
    values.map((value, i) => {
      if (Number.isFinite(value)) return value;
      return value < 0 ? 0 : Math.max(longest, own?.[run]?.get(i) ?? 0);
    }),
  );
}

/**
 * Returns the difference of the means. The time of a request that failed in the first run is made up, and could hide
 * slower successes. Each end is therefore the farther of two: over all requests, and over the successes alone.
 */
function rankedMean(values: MetricValues, relative: boolean): SizedBounds {
  const [before, after] = asNumbers(values) as [Float64Array, Float64Array];
  const all = meanDifference(before, after, relative);
  if (values.before.every(Number.isFinite)) return all;
  const known = succeeded(values);
  const alone = meanDifference(known.before, known.after, relative);
  const share = known.before.length / before.length;
  return (size = before.length) => {
    const [found, other] = [all(size), alone(Math.floor(size * share))];
    if (!found) return undefined;
    if (!other || isMadeUp(values)) return { ...found, lower: () => -Infinity, upper: () => Infinity };
    return {
      ...found,
      lower: (alpha) => Math.min(found.lower(alpha), other.lower(alpha)),
      upper: (alpha) => Math.max(found.upper(alpha), other.upper(alpha)),
    };
  };
}

/** Returns the differences of all statistics over the requests that succeeded, or `undefined` if a list is empty. */
export function metricDifferences(values: MetricValues): Record<Statistic, Difference> | undefined {
  const { before, after } = succeeded(values);
  if (before.length === 0) return undefined;
  const quantiles = new QuantileDifferences(before, after);
  const entries = STATISTICS.map((statistic): [Statistic, Difference] => {
    if (statistic === 'mean') {
      const found = meanDifference(before, after, false)();
      return [statistic, differenceOf(mean(before), mean(after), found)];
    }
    const q = QUANTILES[statistic];
    return [statistic, differenceOf(...quantiles.quantiles(q), quantiles.bounds(q, false)())];
  });
  return Object.fromEntries(entries) as Record<Statistic, Difference>;
}

function differenceOf(before: number, after: number, bounds: Bounds | undefined): Difference {
  const difference = after - before;
  const relative = before === 0 ? null : difference / before;
  const low = bounds?.lower(0.025) ?? -Infinity;
  const high = bounds?.upper(0.025) ?? Infinity;
  const found = { before, after, difference, relative, low, high, significant: low > 0 || high < 0 };
  return Number.isFinite(low) || Number.isFinite(high) ? found : { ...found, tooFew: true };
}

/** Returns the difference of two shares, each a count and a total. */
export const shareDifference = (before: [number, number], after: [number, number]): Difference => {
  const share = ([hits, of]: [number, number]): number => (of === 0 ? 0 : hits / of);
  return differenceOf(share(before), share(after), independentDifference(before, after));
};
