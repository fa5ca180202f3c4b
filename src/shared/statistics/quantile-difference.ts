/** How far a quantile of one sample is from that of another. */
import type { Bounds } from './bounds.ts';
import { normalQuantile } from './distributions.ts';
import { quantileAtScore } from './order-statistics.ts';

export interface DifferenceOptions {
  /** Value i of both samples belongs to the same request, so that what the requests have in common cancels out. */
  paired: boolean;
  /** after ÷ before − 1 instead of after − before. */
  relative: boolean;
}

/** Fewest values for a quantile: with fewer than five beyond it, it would be the luck of a few requests. */
export const neededForQuantile = (q: number): number => Math.round(5 / (1 - q));

const quantile = (sorted: Float64Array, q: number): number => sorted[Math.ceil(q * sorted.length) - 1] ?? Number.NaN;

/** The correlation of "above its own quantile" over the pairs (phi coefficient). */
function correlation(before: Float64Array, after: Float64Array, a: number, b: number): number {
  const n = before.length;
  let [beyondA, beyondB, both] = [0, 0, 0];
  for (let i = 0; i < n; i++) {
    const isA = (before[i] ?? 0) > a;
    const isB = (after[i] ?? 0) > b;
    if (isA) beyondA++;
    if (isB) beyondB++;
    if (isA && isB) both++;
  }
  const spread = Math.sqrt(beyondA * (n - beyondA) * beyondB * (n - beyondB));
  return spread === 0 ? 0 : (both * n - beyondA * beyondB) / spread;
}

/** Points at which the edge of the joint confidence region is evaluated. */
const STEPS = 64;

/** All quantiles of two samples, which are sorted once. */
export class QuantileDifferences {
  readonly #before: Float64Array;
  readonly #after: Float64Array;
  readonly #paired: boolean;
  readonly #sorted: readonly [Float64Array, Float64Array];

  /** @param paired value i of both samples belongs to the same request */
  constructor(before: Float64Array, after: Float64Array, paired: boolean) {
    this.#before = before;
    this.#after = after;
    this.#paired = paired;
    this.#sorted = [before.slice().sort(), after.slice().sort()];
  }

  /** The quantile before and after: the smallest value that at least a share `q` of the values does not exceed. */
  quantiles(q: number): [before: number, after: number] {
    const [before, after] = this.#sorted;
    return [quantile(before, q), quantile(after, q)];
  }

  /** As `quantileDifference`. */
  bounds(q: number, relative: boolean): Bounds | undefined {
    const [sortedBefore, sortedAfter] = this.#sorted;
    if (Math.min(sortedBefore.length, sortedAfter.length) < neededForQuantile(q)) return undefined;
    const [before, after] = this.quantiles(q);
    const beforeAt = quantileAtScore(sortedBefore, q);
    const afterAt = quantileAtScore(sortedAfter, q);
    const angle = Math.acos(this.#paired ? correlation(this.#before, this.#after, before, after) : 0);
    const change = relative ? ratio : (from: number, to: number): number => to - from;
    /** The largest change within the region, or with `side` −1 the smallest. */
    const end = (alpha: number, side: 1 | -1): number => {
      const radius = -side * normalQuantile(alpha);
      let found = -Infinity;
      for (let i = 0; i <= STEPS; i++) {
        const t = ((Math.PI - angle) * i) / STEPS;
        const one = change(beforeAt(radius * Math.cos(t + angle)), afterAt(radius * Math.cos(t)));
        found = Math.max(found, Number.isNaN(one) ? Infinity : side * one);
      }
      return side * found;
    };
    const estimate = change(before, after);
    return { estimate, lower: (alpha) => end(alpha, -1), upper: (alpha) => end(alpha, 1) };
  }
}

/** after ÷ before − 1 of values that are not negative. */
const ratio = (before: number, after: number): number => Math.max(0, after) / Math.max(0, before) - 1;

/**
 * The difference of a quantile of two samples, in the unit of the values, or as a share of that before.
 *
 * @param q above 0 and below 1: 0.95 for p95
 * @returns `undefined` if one sample has fewer than 5/(1 − q) values
 */
export const quantileDifference = (
  before: Float64Array,
  after: Float64Array,
  q: number,
  { paired, relative }: DifferenceOptions,
): Bounds | undefined => new QuantileDifferences(before, after, paired).bounds(q, relative);
