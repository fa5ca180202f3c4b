/** Computes how many cases a decision needs to be reached with a power of 80%. */
import { firstPassing } from '../values/search.ts';
import { binomialCdf, lowerTail, normalQuantile, studentQuantile } from './distributions.ts';

/** Level of a one-sided bound: the share of the releases at the bound of a gate that may pass. */
export const LEVEL = 0.05;
/** The power for computing sizes: a little above the promised 80%, because the input is itself a sample. */
export const POWER = 0.8;

/** Standard errors by which four of five samples are at most off, to one side. */
export const POWER_SCORE = normalQuantile(POWER);

/**
 * Returns the level of the bound that four of five samples keep at level alpha, if the estimate is true.
 *
 * @param degrees of freedom of the variance behind the bound
 */
export const withPower = (alpha: number, degrees = Infinity): number =>
  lowerTail(studentQuantile(alpha, degrees) - POWER_SCORE, degrees);

/** The number of hits that four of five samples do not exceed. */
export const mostHits = (of: number, share: number): number =>
  (smallestSize(1, of + 1, (hits) => binomialCdf(hits - 1, of, share) >= POWER) ?? of + 1) - 1;

/**
 * Returns the smallest size from `from` on that passes, assuming that all larger sizes pass too. Returns `undefined` if
 * no size up to about `most` passes.
 */
export function smallestSize(from: number, most: number, passes: (size: number) => boolean): number | undefined {
  let [fails, size] = [from - 1, from];
  while (!passes(size)) {
    if (size >= most) return undefined;
    [fails, size] = [size, Math.min(most, size * 2)];
  }
  return firstPassing(fails, size, passes);
}

/** This many cases without a hit exclude a share of 1%, by the rule of three (Hanley & Lippman-Hand 1983). */
export const ZERO_TOLERANCE_SIZE = 300;
