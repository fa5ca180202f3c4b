/** The mean of numbers of a sample with strata, from their sums, with its 95% interval. */
import { sum } from '../values/sum.ts';
import { openPart } from './corrected-share.ts';
import { studentQuantile } from './distributions.ts';

/** A figure. `low` and `high` are `null` if its interval is unknown. */
export interface Measured {
  value: number;
  low: number | null;
  high: number | null;
}

/** Sums of the numbers of one stratum of the sample. */
export interface SampledNumbers {
  /** Captures that could be judged. */
  captures: number;
  /** Numbers. */
  judged: number;
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
 * three permits: 30 scores of 5 may contain no 1 although one in ten is a 1. It also allows for any scores of captures
 * that the sample does not represent, if these are more than 1%.
 *
 * @param scale the smallest and the largest possible number, if known
 * @param unjudged captures that the strata do not represent
 * @returns no ends for a single number; without a scale, no ends for fewer than 200 numbers, for equal numbers, or if
 *   more than 1% of the captures are not represented
 */
export function sampledMean(
  strata: readonly SampledNumbers[],
  scale?: { min: number; max: number },
  unjudged = 0,
): Measured {
  const all = sum(strata.map(({ captures, judged }) => Math.max(captures, judged)));
  const n = sum(strata.map(({ judged }) => judged));
  const weighted = strata.map((stratum) => {
    const { captures, judged } = stratum;
    const mean = stratum.sum / judged;
    const spread = Math.max(0, stratum.squares - judged * mean * mean) / (judged - 1);
    // A single number has no spread. On a scale, the spread is at most that of the two ends.
    const most = scale === undefined ? Number.NaN : (scale.max - scale.min) ** 2 / 4;
    const variance = (judged > 1 ? spread : most) / judged;
    return { share: Math.max(captures, judged) / all, judged, mean, variance };
  });
  const value = sum(weighted.map(({ share, mean }) => share * mean));
  const terms = weighted.map(({ share, variance }) => share * share * variance);
  const variance = sum(terms);
  const open = openPart({ represented: all / (all + unjudged) });
  const isKnown = scale === undefined ? n >= FEWEST_WITHOUT_SCALE && variance > 0 && open === 0 : n > 1;
  if (!isKnown) return { value, low: null, high: null };
  const degrees =
    variance ** 2 / sum(terms.map((term, at) => term ** 2 / Math.max(1, (weighted[at]?.judged ?? 0) - 1)));
  const half = variance > 0 ? -studentQuantile(0.025, degrees) * Math.sqrt(variance) : 0;
  if (scale === undefined) return { value, low: value - half, high: value + half };
  // So many scores may be unseen if all of them are in the stratum that would show them least.
  const unseen = weighted.reduce((most, { share, judged }) => Math.max(most, share * Math.min(1, UNSEEN / judged)), 0);
  const end = (side: -1 | 1, bound: number): number => {
    const known = value + side * half + unseen * (bound - value);
    const within = side < 0 ? Math.max(bound, known) : Math.min(bound, known);
    return within + open * (bound - within);
  };
  return { value, low: end(-1, scale.min), high: end(1, scale.max) };
}
