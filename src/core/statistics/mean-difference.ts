/** Bounds the difference between the means of two samples. */
import type { Bounds, SizedBounds } from './bounds.ts';
import { studentQuantile } from './distributions.ts';
import { type LongRun, longRun, withTail } from './long-run.ts';
import { relativeChange } from './quantile-difference.ts';

/**
 * Minimum number of values for a mean. If 5% of the requests are much slower, a third of all samples of 20 values
 * contain no slow request, and no method can see values outside the sample. In simulations, bounds of 20 values were
 * wrong in up to 37%, of 50 in up to 20%.
 */
export const NEEDED_FOR_MEAN = 100;

/** Maximum share of the largest values that dominate the variation of a mean. */
const TAIL_OF_MEAN = 0.1;

export const mean = (values: Float64Array): number => values.reduce((total, value) => total + value, 0) / values.length;

/** The error of a mean: its variance, its third cumulant with its variance, degrees of freedom, and the kurtosis of the values. */
type MeanError = ReturnType<ReturnType<typeof errorOf>>;

/**
 * Returns the error of the mean of a sample of a size.
 *
 * @param deviations from the mean. @param ratio, degrees of the long run: `ratio` values are worth one independent
 *   value
 */
function errorOf(deviations: Float64Array, { ratio, degrees }: LongRun) {
  const n = deviations.length;
  let [m2, m3, m4, m6] = [0, 0, 0, 0];
  for (const d of deviations) {
    const square = d * d;
    m2 += square / n;
    m3 += (square * d) / n;
    m4 += (square * square) / n;
    m6 += (square * square * square) / n;
  }
  const ofThird = Math.max(0, m6 - 6 * m4 * m2 + 9 * m2 ** 3 - m3 * m3);
  return (size: number) => ({
    variance: (ratio * m2) / (size - 1),
    third: (ratio ** 2 * m3) / ((size - 1) * (size - 2)),
    thirdVariance: (ratio ** 4 * ofThird) / size ** 5,
    degrees: Math.min(degrees, size - 1),
    kurtosis: m2 === 0 ? 1 : m4 / m2 ** 2,
  });
}

/**
 * Returns how many standard errors above a mean its true value may be, given the quantile `t` of Student's t: Hall's
 * (1992) transformation.
 *
 * @param skewness of the mean: third cumulant ÷ variance^1.5; below 0 for the other side of a skewed mean
 */
export function skewedReach(t: number, skewness: number): number {
  const a = skewness / 6;
  return Math.abs(a) < 1e-9 ? t : (1 - Math.cbrt(1 - 6 * a * (t + a))) / (2 * a);
}

/** Number of its standard errors that are added to the skewness. */
const SKEWNESS_MARGIN = 2;

/**
 * Returns how many standard errors above (`side` 1) or below (−1) its estimate the true mean may be: by Student's t, or
 * by Hall's transformation if that is farther. The sample's skewness depends on its few largest values, and other
 * samples have fewer or more of these. The upper end of the skewness's own interval is therefore used: it costs little
 * for many values, or for values without a long tail.
 */
function reach({ variance, third, thirdVariance, degrees }: MeanError, alpha: number, side: 1 | -1): number {
  const t = -studentQuantile(alpha, degrees);
  if (variance === 0) return t;
  const skewness = (side * third + SKEWNESS_MARGIN * Math.sqrt(thirdVariance)) / variance ** 1.5;
  return Math.max(t, skewedReach(t, skewness));
}

/**
 * The difference of the means of two samples of the same requests, in the unit of the values, or as a share of the
 * first mean (for values that are not negative).
 *
 * Absolute bounds are `reach` standard errors from the estimate; relative bounds are the ratios at which mean(after) −
 * ratio · mean(before) is that far from 0 (Fieller 1954). Neighbours may be alike (`longRun`). The method assumes that
 * the sample contains the slow requests that dominate the mean: with 100 values, that at least some 5% of the requests
 * are slow.
 *
 * @param before, after value i of both belongs to the same request
 * @param relative after ÷ before − 1 instead of after − before
 * @returns no bounds for fewer than `NEEDED_FOR_MEAN` values
 */
export function meanDifference(before: Float64Array, after: Float64Array, relative: boolean): SizedBounds {
  const [a, b] = [mean(before), mean(after)];
  const [ofBefore, ofAfter] = [before.map((value) => value - a), after.map((value) => value - b)];
  const ofFirst = longRun(ofBefore);
  const left = errorOf(ofBefore, ofFirst);
  const apart = (ratio: number): Float64Array => ofAfter.map((value, i) => value - ratio * (ofBefore[i] ?? 0));
  const isRelative = relative && a > 0;
  const at = isRelative ? b / a : 1;
  const run = longRun(apart(at));
  const errors = [errorOf(apart(at), run), errorOf(apart(at + 1), run)] as const;
  const estimate = relative ? relativeChange(a, b) : b - a;
  /** The end of the interval in a sample of a size, at a number of standard errors. */
  const endAt = (size: number): ((alpha: number, side: 1 | -1) => number) => {
    const found = errors[0](size);
    // Powers of values near the largest number are infinite.
    if ((relative && !isRelative) || !Number.isFinite(found.thirdVariance)) return (_, side) => side * Infinity;
    if (!relative) return (alpha, side) => estimate + side * reach(found, alpha, side) * Math.sqrt(found.variance);
    const { variance } = left(size);
    // The variance at ratio b/a + d is that at b/a, plus 2 · slope · d + own · d². Within the bound, d is small.
    const own = variance * (run.ratio / ofFirst.ratio);
    const slope = (errors[1](size).variance - found.variance - own) / 2;
    return (alpha, side) => {
      const square = reach(found, alpha, side) ** 2;
      const rest = a * a - square * variance;
      // The mean before may be 0.
      if (rest <= 0) return side * Infinity;
      const root = Math.sqrt((square * slope) ** 2 + rest * square * found.variance);
      const end = estimate + (square * slope + side * root) / rest;
      return Number.isNaN(end) ? side * Infinity : end;
    };
  };
  return (size = before.length): Bounds | undefined => {
    if (size < NEEDED_FOR_MEAN) return undefined;
    const end = endAt(size);
    const effective = run.isShown ? { effective: Math.floor(size / run.ratio) } : {};
    // A variance varies by this much of itself over the samples.
    const tail = Math.min(TAIL_OF_MEAN, 2 / (errors[0](size).kurtosis - 1));
    const freedom = withTail(run.freedom, (tail * size) / run.ratio);
    return { estimate, lower: (alpha) => end(alpha, -1), upper: (alpha) => end(alpha, 1), freedom, ...effective };
  };
}
