/** The differences of two runs, with their 95% intervals. */

import type { Bounds, SizedBounds } from '../../core/statistics/bounds.ts';
import { mean, meanDifference, NEEDED_FOR_MEAN } from '../../core/statistics/mean-difference.ts';
import {
  neededForQuantile,
  QuantileDifferences,
  quantileDifference,
} from '../../core/statistics/quantile-difference.ts';
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
   * Of the 95% confidence interval. Infinite if there are too few values for it, which is `null` in JSON.
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
export const NEEDED_VALUES: Readonly<Record<Statistic, number>> = {
  mean: NEEDED_FOR_MEAN,
  p50: neededForQuantile(QUANTILES.p50),
  p90: neededForQuantile(QUANTILES.p90),
  p95: neededForQuantile(QUANTILES.p95),
  p99: neededForQuantile(QUANTILES.p99),
};

/** Value i of both lists belongs to the same request if they are `paired`. */
export interface MetricValues {
  before: Float64Array;
  after: Float64Array;
  paired: boolean;
}

/** Returns a difference with its bounds at any level. `relative`: after ÷ before − 1. */
export const metricBounds = (values: MetricValues, statistic: Statistic, relative: boolean): SizedBounds => {
  const { before, after, paired } = values;
  return statistic === 'mean'
    ? meanDifference(before, after, { paired, relative })
    : quantileDifference(before, after, QUANTILES[statistic], { paired, relative });
};

/** Returns the differences of all statistics, or `undefined` if a list is empty. */
export function metricDifferences({ before, after, paired }: MetricValues): Record<Statistic, Difference> | undefined {
  if (before.length === 0 || after.length === 0) return undefined;
  const quantiles = new QuantileDifferences(before, after, paired);
  const entries = STATISTICS.map((statistic): [Statistic, Difference] => {
    if (statistic === 'mean') {
      const found = meanDifference(before, after, { paired, relative: false })();
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
  return bounds ? found : { ...found, tooFew: true };
}

/** Returns the difference of two shares, each a count and a total. */
export const shareDifference = (before: [number, number], after: [number, number]): Difference => {
  const share = ([hits, of]: [number, number]): number => (of === 0 ? 0 : hits / of);
  return differenceOf(share(before), share(after), independentDifference(before, after));
};
