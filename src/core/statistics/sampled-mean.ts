/** The mean of numbers of a sample with strata, from their sums, with its 95% interval. */
import { sum } from '../values/sum.ts';
import { studentQuantile } from './distributions.ts';

/** A figure. `low` and `high` are `null` if its interval is unknown. */
export interface Measured {
  value: number;
  low: number | null;
  high: number | null;
}

/** Sums of the numbers of one stratum of the sample. */
export interface SampledNumbers {
  /** Number of captures that the stratum represents. */
  weight: number;
  count: number;
  sum: number;
  squares: number;
}

/**
 * With fewer numbers on an open scale there is no interval, because the sums do not show how skewed the numbers are.
 */
const FEWEST_WITHOUT_SCALE = 200;

/** If n cases contain none of a kind, up to 3 in n may be of it (the rule of three). */
const UNSEEN = 3;

/**
 * Returns the mean, with each stratum weighted by its captures. Its interval is Student's t with Welch's degrees of
 * freedom. On a known scale, the interval allows for scores at the ends that the sample lacks, as many as the rule of
 * three permits: 30 scores of 5 may contain no 1 although one in ten is a 1.
 *
 * @param scale the smallest and the largest possible number, if known
 * @returns no ends for a single number; without a scale, no ends for fewer than 200 numbers or for equal numbers
 */
export function sampledMean(strata: readonly SampledNumbers[], scale?: { min: number; max: number }): Measured {
  const all = sum(strata.map(({ weight }) => weight));
  const n = sum(strata.map(({ count }) => count));
  const weighted = strata.map((stratum) => {
    const mean = stratum.sum / stratum.count;
    const spread = Math.max(0, stratum.squares - stratum.count * mean * mean) / (stratum.count - 1);
    // A single number has no spread. On a scale, the spread is at most that of the two ends.
    const most = scale === undefined ? Number.NaN : (scale.max - scale.min) ** 2 / 4;
    const variance = (stratum.count > 1 ? spread : most) / stratum.count;
    return { share: stratum.weight / all, count: stratum.count, mean, variance };
  });
  const value = sum(weighted.map(({ share, mean }) => share * mean));
  const terms = weighted.map(({ share, variance }) => share * share * variance);
  const variance = sum(terms);
  const isKnown = scale === undefined ? n >= FEWEST_WITHOUT_SCALE && variance > 0 : n > 1;
  if (!isKnown) return { value, low: null, high: null };
  const degrees = variance ** 2 / sum(terms.map((term, at) => term ** 2 / Math.max(1, (weighted[at]?.count ?? 0) - 1)));
  const half = variance > 0 ? -studentQuantile(0.025, degrees) * Math.sqrt(variance) : 0;
  if (scale === undefined) return { value, low: value - half, high: value + half };
  const unseen = sum(weighted.map(({ share, count }) => share * Math.min(1, UNSEEN / count)));
  const low = value - half - unseen * (value - scale.min);
  const high = value + half + unseen * (scale.max - value);
  return { value, low: Math.max(scale.min, low), high: Math.min(scale.max, high) };
}
