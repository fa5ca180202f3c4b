/**
 * A share with its uncertainty, also one that is estimated from a sample in which cases had different chances to be
 * drawn.
 */

import { sum } from '../values/sum.ts';
import type { Bounds } from './bounds.ts';
import { betaQuantile, Z_95 } from './distributions.ts';

/** A figure and its 95% confidence interval. */
export interface Estimate {
  value: number;
  low: number;
  high: number;
}

/** A share and the counts behind it. */
export interface Share extends Estimate {
  hits: number;
  of: number;
}

/**
 * Returns the share with Wilson’s score interval (1927), for tables: it covers 95% on average over the true shares,
 * stays within 0 and 1, and is narrower than the exact interval. Assumes independent cases.
 *
 * @returns `null` without cases
 *
 * @example
 *     wilson(90, 100)   // { value: 0.9, low: 0.826, high: 0.945, hits: 90, of: 100 }
 */
export const wilson = (hits: number, of: number): Share | null =>
  of === 0 ? null : { ...scoreInterval(hits / of, of), hits, of };

/**
 * Returns Wilson's interval of any figure from 0 to 1 that is as certain as a share of `of` cases.
 *
 * @param of need not be whole
 * @param z how many standard errors are excluded on each side
 */
export function scoreInterval(value: number, of: number, z = Z_95): Estimate {
  const z2 = z * z;
  const center = (value + z2 / (2 * of)) / (1 + z2 / of);
  const half = (z / (1 + z2 / of)) * Math.sqrt((value * (1 - value)) / of + z2 / (4 * of * of));
  // Rounding would miss the exact bounds 0 and 1 by a hair.
  return { value, low: value <= 0 ? 0 : Math.max(0, center - half), high: value >= 1 ? 1 : Math.min(1, center + half) };
}

/**
 * Returns a share with exact bounds (Clopper and Pearson 1934), for decisions: for any true share and any number of
 * cases, a bound is wrong in at most a share alpha of all samples. Assumes independent cases.
 *
 * @param open cases without an answer, included in `of`: the upper bound counts them as hits, the lower bound as misses
 * @returns bounds between 0 and 1; the estimate is the share of the answered cases, `NaN` without answered cases
 *
 * @example
 *     shareBounds(0, 100).upper(0.05)   // 0.0295: without a hit in 100 cases, the share is below 3%
 */
export function shareBounds(hits: number, of: number, open = 0): Bounds {
  const most = hits + open;
  return {
    estimate: hits / (of - open),
    lower: (alpha) => (hits === 0 ? 0 : betaQuantile(alpha, hits, of - hits + 1)),
    upper: (alpha) => (most === of ? 1 : 1 - betaQuantile(alpha, of - most, most + 1)),
  };
}

// ------------------------------------------------------------------------------------------------ weighted samples

/** A share, and the number of independent cases of equal weight with the same information. */
export interface SampledShare {
  share: number;
  of: number;
  /** The share of all cases that the sample represents; absent: it represents all. */
  represented?: number;
}

/**
 * Returns the share of hits among all cases that could have been drawn: Hájek's ratio estimator (1971). Its number of
 * cases follows from its linearized variance, but is at most Kish's effective size (1965), because a few cases that are
 * all alike seem to have no spread.
 *
 * @returns a share of `NaN` without cases
 */
export function weightedShare(cases: readonly { hit: boolean; weight: number }[]): SampledShare {
  const [{ weight: first } = { weight: 0 }] = cases;
  const hits = cases.filter(({ hit }) => hit).length;
  if (cases.every(({ weight }) => weight === first)) return { share: hits / cases.length, of: cases.length };
  const total = sum(cases.map(({ weight }) => weight));
  const share = sum(cases.map(({ hit, weight }) => (hit ? weight : 0))) / total;
  const variance = sum(cases.map(({ hit, weight }) => (weight * (Number(hit) - share)) ** 2)) / total ** 2;
  const effective = total ** 2 / sum(cases.map(({ weight }) => weight ** 2));
  return { share, of: variance === 0 ? effective : Math.min(effective, (share * (1 - share)) / variance) };
}
