/** Quantiles of numbers from the bins of the counts, each at most 2% off. */
import { type LogBins, quantileOf } from '../core/statistics/log-bins.ts';
import { number } from '../core/text/figure-text.ts';

const NAMES = ['p50', 'p95', 'p99'] as const;

/** The numbers that 50, 95 and 99% of the others do not exceed. */
export type Quantiles = Record<(typeof NAMES)[number], number>;

export const quantilesOf = (bins: LogBins = {}): Quantiles =>
  Object.fromEntries(NAMES.map((name) => [name, quantileOf(bins, Number(name.slice(1)) / 100) ?? 0])) as Quantiles;

/** For example `p50 212.0, p95 790.1, p99 1204`. */
export const quantilesText = (quantiles: Quantiles): string =>
  NAMES.map((name) => `${name} ${number(quantiles[name])}`).join(', ');
