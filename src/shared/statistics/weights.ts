/** Shares of everything, estimated from a sample in which cases had different chances to be drawn. */
import type { Bounds } from './bounds.ts';
import { betaQuantile } from './distributions.ts';

/** A drawn case. Its weight is 1 ÷ the probability with which it was drawn: the number of cases it stands for. */
export interface WeightedCase {
  hit: boolean;
  weight: number;
}

export interface WeightedShare extends Bounds {
  /** Variance of the estimate. */
  variance: number;
  /** Number of cases of equal weight that would tell as much: Kish’s effective size (1965), at most the number of cases. */
  effectiveSize: number;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

/**
 * Returns the share of hits among all cases that could have been drawn: Hájek’s ratio estimator (1971), with its linearized
 * variance. The variance assumes that cases are drawn independently of each other; it is a little too large if most cases are
 * drawn. The bounds are those of Clopper and Pearson at the effective numbers of cases and hits (Korn and Graubard 1998), which
 * hold for rare hits too.
 *
 * @returns without cases, bounds of 0 and 1 and an estimate of `NaN`
 */
export function weightedShare(cases: readonly WeightedCase[]): WeightedShare {
  const total = sum(cases.map(({ weight }) => weight));
  const estimate = sum(cases.map(({ hit, weight }) => (hit ? weight : 0))) / total;
  const variance = sum(cases.map(({ hit, weight }) => (weight * (Number(hit) - estimate)) ** 2)) / total ** 2;
  const effectiveSize = cases.length === 0 ? 0 : total ** 2 / sum(cases.map(({ weight }) => weight ** 2));
  const all = cases.length;
  // Equal cases have no spread, and say nothing about how the weights change it.
  const size = variance === 0 ? effectiveSize : Math.min(all, (estimate * (1 - estimate)) / variance);
  const hits = size * estimate;
  return {
    estimate,
    variance,
    effectiveSize,
    lower: (alpha) => (hits > 0 ? betaQuantile(alpha, hits, size - hits + 1) : 0),
    upper: (alpha) => (size - hits > 0 ? 1 - betaQuantile(alpha, size - hits, hits + 1) : 1),
  };
}
