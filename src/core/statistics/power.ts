/**
 * How many cases a decision needs, so that what is unchanged passes with a power of 80%. Sizes hold "from here on": a test of
 * counts has a power that saws up and down with the size, and every larger size must have the power too.
 */
import { PermanentError } from '../errors/errors.ts';
import { Random } from '../values/random.ts';
import { betaQuantile, binomialCdf } from './distributions.ts';

/** Level of a one-sided bound: the share of the releases at the bound of a gate that may pass. */
export const LEVEL = 0.05;
/** The power that sizes are planned for. */
export const POWER = 0.8;

/** No plan names a larger size: a replay has at most ten million requests. */
export const LARGEST_SIZE = 10_000_000;

/**
 * Returns the smallest size from `from` on that passes, given that all larger ones pass too; `undefined` if none up to about
 * `most` does.
 */
export function smallestSize(from: number, most: number, passes: (size: number) => boolean): number | undefined {
  let [fails, size] = [from - 1, from];
  while (!passes(size)) {
    if (size >= most) return undefined;
    [fails, size] = [size, Math.min(most, size * 2)];
  }
  while (size - fails > 1) {
    const middle = Math.floor((fails + size) / 2);
    if (passes(middle)) size = middle;
    else fails = middle;
  }
  return size;
}

/** The fewest cases of which `hits` hits still exclude every share from `bound` on (Clopper & Pearson 1934). */
const sizeFor = (hits: number, bound: number): number =>
  smallestSize(hits + 1, 4 * LARGEST_SIZE, (size) => binomialCdf(hits, size, bound) <= LEVEL) ?? 4 * LARGEST_SIZE;

/** Equally likely values of a share of which `hits` of `of` cases are known: quantiles of Jeffreys' posterior. */
export const likelyShares = (hits: number, of: number, values = 32): number[] =>
  Array.from({ length: values }, (_, i) => betaQuantile((i + 0.5) / values, hits + 0.5, of - hits + 0.5));

/** Numbers of hits that are looked at to see whether the power stays: it saws by less than one of them. */
const LOOKED_AHEAD = 5;

/**
 * Returns the fewest cases from which on the exact one-sided 95% bound of a share is within `bound` with 80% probability.
 *
 * With several equally likely shares, the probability is their mean ("assurance": O'Hagan, Stevens & Campbell, Pharmaceutical
 * Statistics 2005), so that what a small pilot leaves open makes the size larger.
 *
 * @param shares true shares of hits, 0 to 1
 * @param bound 0 to 1, exclusive
 * @returns `undefined` if no size up to `most` suffices: a share at or above the bound
 */
export function shareSize(shares: readonly number[], bound: number, most = LARGEST_SIZE): number | undefined {
  /** With `hits` allowed, the power falls with each further case, until one more hit is allowed. */
  const keepsPower = (hits: number): boolean => {
    const last = sizeFor(hits + 1, bound) - 1;
    return shares.reduce((sum, share) => sum + binomialCdf(hits, last, share), 0) >= POWER * shares.length;
  };
  // Numbers of hits are counted from 1 here.
  let from = 1;
  for (;;) {
    const found = smallestSize(from, Math.ceil(most * bound), (hits) => keepsPower(hits - 1));
    if (found === undefined) return undefined;
    const failing = Array.from({ length: LOOKED_AHEAD }, (_, i) => found + i).findLast((hits) => !keepsPower(hits));
    if (failing === undefined) {
      const size = sizeFor(found - 1, bound);
      return size > most ? undefined : size;
    }
    from = failing + 1;
  }
}

/** The fewest cases of which none is a hit that exclude a share of `tolerance`, by the rule of three (Hanley & Lippman-Hand 1983). */
export const zeroToleranceSize = (tolerance: number): number => Math.ceil(3 / tolerance - 1e-9);

/** Draws of each size on the way, and of the last one. */
const ROUGH_DRAWS = 300;
const DRAWS = 1000;
const ROUNDS = 12;
/** The share of the draws that must pass: the power and the standard error of a share of so many draws. */
const DRAWN_POWER = POWER + Math.sqrt((POWER * (1 - POWER)) / DRAWS);
/** Sizes this close are the same. */
const CLOSE = 0.05;

export interface SimulatedOptions {
  /** Where to start looking; at best near the result. */
  start: number;
  /** Fewest cases that the bound can be computed from. */
  least?: number;
  /** Largest size that is drawn. Larger ones follow from it. */
  most?: number;
  seed?: number;
}

/**
 * Returns the size at which `upper` is within `bound` in 80% of the draws. Without a difference, the distance of an upper
 * bound from 0 shrinks with √size: the size that follows from the draws of one size is drawn next, until it stays. This
 * takes a skewed estimator as it is at that size, where a normal approximation would not.
 *
 * @param upper draws cases without a difference, and returns the upper bound of their difference; not finite: too few cases
 * @param bound in the unit of `upper`, above 0
 * @returns `undefined` if no size up to ten million suffices
 */
export function simulatedSize(
  upper: (size: number, random: Random) => number,
  bound: number,
  { start, least = 1, most = LARGEST_SIZE, seed = 1 }: SimulatedOptions,
): number | undefined {
  if (!(bound > 0))
    throw new PermanentError('InvalidBound', 'No size passes a bound of 0', {
      got: String(bound),
      expected: 'above 0',
    });
  const random = new Random(seed);
  const next = (from: number, draws: number): number => {
    const drawn = Float64Array.from({ length: draws }, () => upper(from, random)).sort();
    const reached = drawn[Math.ceil(DRAWN_POWER * draws) - 1] ?? Number.NaN;
    return Number.isFinite(reached) ? Math.max(least, Math.ceil(from * (Math.max(0, reached) / bound) ** 2)) : from * 2;
  };
  let size = Math.max(least, start);
  for (let round = 0; round < ROUNDS; round++) {
    const from = Math.min(size, most);
    const found = next(from, ROUGH_DRAWS);
    const stays = Math.abs(found - size) <= CLOSE * size;
    size = found;
    if (stays || (from === most && found >= most)) break;
  }
  size = next(Math.min(size, most), DRAWS);
  return size > LARGEST_SIZE ? undefined : size;
}
