/** Measures how much more a mean varies because consecutive values are alike. */

/** Minimum number of values whose order carries information about their dependence. */
const FEWEST = 60;
/**
 * Largest order of the autoregression, and number of cosines for its residuals. Both are smaller for short sequences.
 */
const MOST_ORDER = 12;
/** Orders after the best one so far that are tried. */
const PATIENCE = 5;
const FEW_COSINES = { independent: 32, alike: 12 };
/** Long sequences have as many as are slower than twice this number of values, which show how alike they are the better. */
const PERIOD = 400;
const MOST_COSINES = 100;

/**
 * With fewer values, they count as independent unless their order shows otherwise, because the ratio is too uncertain
 * to be used unchanged.
 */
export const FEWEST_FOR_ORDER = 300;

/** The normal score of 99%. */
const SHOWN_SCORE = 2.3263;

export interface LongRun {
  /** Variance of the mean ÷ the variance that independent values of this spread would have; at least 1. */
  ratio: number;
  /** Degrees of freedom of that variance; infinite unless it is shown. */
  degrees: number;
  /** The ratio would be as large in less than 1% of the independent sequences. */
  isShown: boolean;
  /** Degrees of freedom of the measured ratio, shown or not; 0 where it is not measured. */
  freedom: number;
}

const INDEPENDENT: LongRun = { ratio: 1, degrees: Number.POSITIVE_INFINITY, isShown: false, freedom: 0 };

/** The quantile of χ² ÷ its degrees of freedom at a normal score (Wilson and Hilferty 1931). */
export const varianceByChance = (degrees: number, score: number): number =>
  (1 - 2 / (9 * degrees) + score * Math.sqrt(2 / (9 * degrees))) ** 3;

/** Combines the degrees of freedom of a variance with the number of independent values in the tail that matters. */
export const withTail = (freedom: number, inTail: number): number => 1 / (1 / freedom + 1 / inTail);

/** Fits an autoregression by Burg's method (1975), its order by the corrected criterion of Akaike (Hurvich and Tsai 1989). */
function autoregression(values: Float64Array, variance: number) {
  const n = values.length;
  const [forward, backward] = [values.slice(), values.slice()];
  let coefficients: number[] = [];
  let [left, sum, order] = [variance, 0, 0];
  /** Residuals of predicting each value from the values before it, and from the values after it. */
  let residuals: [Float64Array, Float64Array] = [values, values];
  let best = n * Math.log(variance) + 2;
  for (let p = 1; p <= Math.min(MOST_ORDER, n / 10); p++) {
    let [cross, power] = [0, 0];
    for (let i = p; i < n; i++) {
      const [f, b] = [forward[i] ?? 0, backward[i - 1] ?? 0];
      cross += f * b;
      power += f * f + b * b;
    }
    if (!(power > 0)) break;
    const reflection = (2 * cross) / power;
    coefficients = [...coefficients.map((one, i) => one - reflection * (coefficients[p - 2 - i] ?? 0)), reflection];
    for (let i = n - 1; i >= p; i--) {
      const [f, b] = [forward[i] ?? 0, backward[i - 1] ?? 0];
      forward[i] = f - reflection * b;
      backward[i] = b - reflection * f;
    }
    left *= 1 - reflection * reflection;
    const criterion = n * Math.log(Math.max(left, 1e-300)) + (2 * (p + 1) * n) / (n - p - 2);
    if (p - order > PATIENCE) break;
    if (criterion >= best) continue;
    best = criterion;
    sum = coefficients.reduce((total, one) => total + one, 0);
    order = p;
    residuals = [forward.slice(p), backward.slice(p)];
  }
  return { sum, order, residuals };
}

/** Returns the long-run variance by equally weighted cosines (Müller 2007), which detect slow rises and falls. */
function cosineVariance(values: Float64Array, cosines: number): number {
  const n = values.length;
  let total = 0;
  for (let k = 1; k <= cosines; k++) {
    const step = (Math.PI * k) / n;
    const twice = 2 * Math.cos(step);
    let [before, now, sum] = [Math.cos(step / 2), Math.cos(step / 2), 0];
    for (let i = 0; i < n; i++) {
      sum += (values[i] ?? 0) * now;
      [before, now] = [now, twice * now - before];
    }
    total += (2 * sum * sum) / n;
  }
  return total / cosines;
}

/**
 * Returns how much more the mean of a sequence varies than the mean of independent values. An autoregression removes
 * the correlation of neighbours, and cosines measure slow changes in the rest (prewhitening: Andrews and Monahan 1992;
 * few cosines and Student's t: Lazarus, Lewis, Stock and Watson 2018). The sum of its coefficients is corrected for its
 * bias towards 0 (Kendall 1954), and its uncertainty reduces the degrees of freedom.
 *
 * @param values in the order of their occurrence
 */
export function longRun(values: Float64Array): LongRun {
  const n = values.length;
  if (n < FEWEST) return INDEPENDENT;
  // Squares of values near the largest number would be infinite.
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const mean = values.reduce((total, value) => total + value / largest, 0) / n;
  const centered = values.map((value) => value / largest - mean);
  const variance = centered.reduce((total, value) => total + value * value, 0) / n;
  if (!(variance > 1e-12 * mean * mean)) return INDEPENDENT;
  const { sum, order, residuals } = autoregression(centered, variance);
  const corrected = order === 0 ? 0 : Math.min(sum + (1 + 3 * sum) / n, 1 - 1 / n);
  const most = Math.max(FEW_COSINES[order > 0 ? 'alike' : 'independent'], Math.min(MOST_COSINES, n / PERIOD));
  const cosines = Math.max(4, Math.floor(Math.min(most, n / 10)));
  const first = cosineVariance(residuals[0], cosines);
  // Without an autoregression, both residuals are the values themselves.
  const left = order === 0 ? first : (first + cosineVariance(residuals[1], cosines)) / 2;
  const ratio = left / (1 - corrected) ** 2 / variance;
  const doubt = order === 0 ? 0 : (4 * ((1 + corrected) / (1 - corrected) + order - 1)) / n;
  const degrees = 2 / (2 / cosines + Math.max(0, doubt));
  const isShown = ratio > varianceByChance(degrees, SHOWN_SCORE);
  if (isShown) return { ratio, degrees, isShown, freedom: degrees };
  return n < FEWEST_FOR_ORDER ? INDEPENDENT : { ...INDEPENDENT, ratio: Math.max(1, ratio), freedom: degrees };
}
