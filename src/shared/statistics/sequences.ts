/**
 * Always-valid bounds: at level alpha, the probability that a bound is ever wrong is at most alpha, over all looks at a growing
 * sample. So one may look after each case and stop when a bound decides. The price is a wider interval than that of a sample of
 * a fixed size.
 *
 * Each is one mixture martingale of Howard, Ramdas, McAuliffe and Sekhon (2021), which excludes a value once it exceeds 1/alpha.
 */
import type { Bounds } from './bounds.ts';
import { betaCdf, betaPower, normalCdf } from './distributions.ts';
import { skewedReach } from './mean-difference.ts';

/** The mixtures are tightest at this one-sided level. They hold at all levels. */
const TIGHTEST_AT = 0.05;

/** Returns how many cases the mixture counts as known in advance, so that bounds are tightest after the planned number. */
function priorSize(planned: number): number {
  const log = 2 * Math.log(1 / (2 * TIGHTEST_AT));
  return planned / (log + Math.log(1 + log));
}

/** Returns the end of the values that are not excluded, between one that is not and one that is. */
function edge(isExcluded: (value: number) => boolean, inside: number, outside: number): number {
  let [kept, excluded] = [inside, outside];
  for (let step = 0; step < 50; step += 1) {
    const middle = (kept + excluded) / 2;
    if (isExcluded(middle)) excluded = middle;
    else kept = middle;
  }
  return excluded;
}

/**
 * Returns always-valid bounds of a share: the beta-binomial mixture, which is exact for independent cases however few, and holds
 * for dependent ones whose chance of a hit stays on the same side of the bound.
 *
 * @param planned number of cases at which the bounds are tightest; fixed before the first look
 */
export function shareSequence(hits: number, of: number, planned: number): Bounds {
  const prior = Math.max(priorSize(planned) - 1, 1e-3);
  /** Lower end for a count, by the likelihood of all larger shares against that of the one to be excluded. */
  const lowerEnd = (count: number, alpha: number): number => {
    if (count === 0) return 0;
    const larger = (miss: number, hit: number, p: number): number =>
      betaCdf(1 - p, miss, hit) / betaPower(1 - p, miss, hit);
    const evidence = (p: number): number =>
      larger((1 - p) * prior + of - count, p * prior + count, p) / larger((1 - p) * prior, p * prior, p);
    return edge((p) => evidence(p) >= 1 / alpha, count / of, 0);
  };
  return {
    estimate: hits / of,
    lower: (alpha) => lowerEnd(hits, alpha),
    upper: (alpha) => 1 - lowerEnd(of - hits, alpha),
  };
}

/** A sample of numbers: how many, their mean, standard deviation and skewness (third central moment ÷ deviation³). */
export interface Moments {
  of: number;
  mean: number;
  deviation: number;
  skewness: number;
}

/**
 * Returns always-valid bounds of a mean: the normal mixture at the estimated spread, an asymptotic confidence sequence
 * (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024), with Hall’s correction for skewness (1992). It needs values with a
 * finite variance, and a first look late enough for their mean to be nearly normal.
 *
 * @param planned number of values at which the bounds are tightest; fixed before the first look
 * @returns infinite bounds without spread, which then is unknown
 */
export function meanSequence({ of, mean, deviation, skewness }: Moments, planned: number): Bounds {
  const prior = priorSize(planned);
  /** Returns how far from the mean the end is, on the side of the sign. */
  const distance = (alpha: number, sign: 1 | -1): number => {
    if (!(deviation > 0)) return Number.POSITIVE_INFINITY;
    const needed = Math.log(1 / alpha) - Math.log((4 * prior) / (of + prior)) / 2;
    const far = Math.sqrt(2 * (needed + Math.LN2));
    const x = edge((value) => (value * value) / 2 + Math.log(normalCdf(value)) >= needed, 0, far);
    const t = x * Math.sqrt((of + prior) / of);
    return (deviation / Math.sqrt(of)) * skewedReach(t, (sign * skewness) / Math.sqrt(of));
  };
  return {
    estimate: mean,
    lower: (alpha) => mean - distance(alpha, -1),
    upper: (alpha) => mean + distance(alpha, 1),
  };
}
