/** The errors of predicted numbers: MAE, RMSE, R² and bias with 95% intervals, from one pass over the cases. */
import { studentQuantile } from './distributions.ts';
import { skewedReach } from './mean-difference.ts';
import type { Measured } from './sampled-mean.ts';

/** Mean and central sums of powers, updated case by case without cancellation (Pébay 2008). */
class Moments {
  n = 0;
  mean = 0;
  m2 = 0;
  m3 = 0;
  m4 = 0;

  /** @returns the distance from the mean before */
  add(x: number): number {
    const n = ++this.n;
    const distance = x - this.mean;
    const step = distance / n;
    const square = distance * step * (n - 1);
    this.mean += step;
    this.m4 += square * step * step * (n * n - 3 * n + 3) + 6 * step * step * this.m2 - 4 * step * this.m3;
    this.m3 += square * step * (n - 2) - 3 * step * this.m2;
    this.m2 += square;
    return distance;
  }
}

/** With fewer cases there is no interval: so few errors cannot show their spread, let alone their tail. */
const FEWEST_FOR_ERRORS = 30;
/** Sums of sizes and of squares are made by the largest errors, which a small sample may not have. */
const FEWEST_FOR_SIZES = 1000;
/** If the largest hundredth contributes more of a sum, a few rows decide it, and it cannot predict the next rows. */
const MOST_BY_FEW = 0.3;

/**
 * Of n cases, up to this many may be as large as the largest. With 99% confidence, a kind that a sample lacks is rarer
 * (1 − e^−4.6).
 */
const UNSEEN = 4.6;

/** A figure with its 95% interval, or with the reason why it has no interval. */
export interface NumberFigure extends Measured {
  why?: string;
}

interface MeanOptions {
  /** The mean cannot be below it. */
  least?: number;
  fewest?: number;
  /** The share of the sum that the largest hundredth of the values carries. */
  byFew?: number;
  /** How much larger the mean may be because of values that the sample lacks. */
  unseen?: number;
}

function whyUncertain({ n, m2 }: Moments, { fewest = FEWEST_FOR_ERRORS, byFew = 0 }: MeanOptions): string | undefined {
  if (n < fewest) return `with fewer than ${fewest} rows, a few rows decide it`;
  if (!(m2 > 0)) return 'all errors have the same size';
  return byFew < MOST_BY_FEW ? undefined : 'a few rows decide it';
}

/** Returns a mean with its interval: by Student's t, corrected for the skewness of the values (Hall 1992). */
function meanOf(moments: Moments, options: MeanOptions = {}): NumberFigure {
  const { n, mean, m2, m3 } = moments;
  const { least = -Infinity, unseen = 0 } = options;
  const why = whyUncertain(moments, options);
  if (why !== undefined) return { value: mean, low: null, high: null, why };
  const t = -studentQuantile(0.025, n - 1);
  const error = Math.sqrt(m2 / n / (n - 1));
  const skewness = m3 / n / (m2 / n) ** 1.5 / Math.sqrt(n);
  const [down, up] = [skewedReach(t, -skewness), skewedReach(t, skewness)];
  return { value: mean, low: Math.max(least, mean - error * down), high: mean + Math.hypot(error * up, unseen) };
}

/** Bins of a factor of two. */
const BINS = 8;

/** Sizes of errors in bins of constant relative width, with the exact sums of each: as many bins as the sizes differ. */
class Sizes {
  largest = 0;
  readonly #bins = new Map<number, { count: number; sum: number; squares: number }>();

  add(size: number): void {
    this.largest = Math.max(this.largest, size);
    const at = Math.floor(BINS * Math.log2(size));
    const bin = this.#bins.get(at) ?? { count: 0, sum: 0, squares: 0 };
    this.#bins.set(at, bin);
    bin.count += 1;
    bin.sum += size;
    bin.squares += size * size;
  }

  /** Returns the share of the sum that the largest hundredth carries; of the last bin that it reaches, in proportion. */
  byFew(of: 'sum' | 'squares', n: number): number {
    let left = Math.ceil(n / 100);
    let [few, all] = [0, 0];
    for (const [, bin] of [...this.#bins].toSorted(([a], [b]) => b - a)) {
      const taken = Math.min(left, bin.count);
      left -= taken;
      few += (bin[of] * taken) / bin.count;
      all += bin[of];
    }
    return few / all;
  }
}

/** Adds up cases. Its size does not depend on how many there are. */
export class NumberErrors {
  readonly #errors = new Moments();
  readonly #sizes = new Moments();
  readonly #bins = new Sizes();
  readonly #squares = new Moments();
  readonly #labels = new Moments();
  #first = 0;
  /** Sums of the squared error times the distance of the label from the mean, and times its square. */
  #cross = 0;
  #crossSquare = 0;

  get n(): number {
    return this.#errors.n;
  }

  add(label: number, prediction: number): void {
    // Labels are stored as distances from the first label, so that large numbers close to each other keep their digits.
    if (this.n === 0) this.#first = label;
    const error = prediction - label;
    const square = error * error;
    const sumOfSquares = this.#squares.mean * this.#squares.n;
    const before = this.#labels.mean;
    this.#labels.add(label - this.#first);
    const moved = this.#labels.mean - before;
    const distance = label - this.#first - this.#labels.mean;
    this.#crossSquare += moved * moved * sumOfSquares - 2 * moved * this.#cross + square * distance * distance;
    this.#cross += square * distance - moved * sumOfSquares;
    this.#errors.add(error);
    this.#sizes.add(Math.abs(error));
    this.#bins.add(Math.abs(error));
    this.#squares.add(square);
  }

  /** The mean of prediction − label. */
  bias = (): NumberFigure => meanOf(this.#errors);
  mae = (): NumberFigure =>
    meanOf(this.#sizes, { least: 0, fewest: FEWEST_FOR_SIZES, byFew: this.#bins.byFew('sum', this.n) });

  mse(): NumberFigure {
    const unseen = (UNSEEN * this.#bins.largest ** 2) / this.n;
    const byFew = this.#bins.byFew('squares', this.n);
    return meanOf(this.#squares, { least: 0, fewest: FEWEST_FOR_SIZES, byFew, unseen });
  }

  rmse(): NumberFigure {
    const { value, low, high, why } = this.mse();
    return { value: Math.sqrt(value), low: low && Math.sqrt(low), high: high && Math.sqrt(high), why };
  }

  /**
   * Computes R². The interval combines the intervals of the mean squared error and of the variance of the labels (Zou
   * and Donner 2008), whose ratio is 1 − R².
   *
   * @returns `null` for one case, and for labels that are all equal
   */
  r2(): NumberFigure | null {
    const { n, m2, m4 } = this.#labels;
    if (n < 2 || !(m2 > 0)) return null;
    const [mse, variance] = [this.#squares.mean, m2 / n];
    const left = mse / variance;
    const { low, high, why } = this.mse();
    if (low === null || high === null) return { value: 1 - left, low, high, why };
    const t = -studentQuantile(0.025, n - 1);
    // Combine logarithms, because squares are skewed, with two different sides. Both means vary together.
    const reach = t * Math.sqrt(Math.max(0, m4 / n / variance ** 2 - 1) / n);
    const ofErrors = t * Math.sqrt(this.#squares.m2 / n / mse ** 2 / n);
    const common = (t * t * (this.#crossSquare / n / mse / variance - 1)) / n;
    // Labels of two values, as many of each, have a variance that hardly varies.
    const share = reach * ofErrors > 0 ? Math.max(-1, Math.min(1, common / (ofErrors * reach))) : 0;
    const change = (side: number): number => Math.sqrt(side ** 2 + reach ** 2 - 2 * share * side * reach);
    const best = low > 0 ? 1 - left * Math.exp(-change(Math.log(mse / low))) : 1;
    return { value: 1 - left, low: 1 - left * Math.exp(change(Math.log(high / mse))), high: best };
  }
}
