/**
 * Looking again and again while a sample grows, without more false decisions than a single look would make: a spending function
 * says how much of the error may be used up by each size, and each look gets the level that uses up its part.
 *
 * Sources: Lan and DeMets, Biometrika 70 (1983) for the spending; Armitage, McPherson and Rowe, JRSS A 132 (1969) for the
 * recursive integration; Jennison and Turnbull, Group Sequential Methods (2000), chapters 7 and 19.
 *
 * Assumes that what is looked at behaves like a sum over independent requests, as shares, means and quantiles of enough of them
 * do, and that neither the sizes of the looks nor the order of the requests depend on the results.
 */
import { normalCdf } from './distributions.ts';

/** Share of alpha that is kept for looks beyond the planned size. */
const KEPT_BEYOND = 0.1;

/**
 * Returns the share of alpha that may be used up at a fraction of the planned size. Up to the plan it is in proportion to the
 * size, which needs about the fewest requests on average. Half of the rest is for sizes up to twice the plan, and so on.
 */
export const spentAt = (fraction: number): number =>
  fraction <= 1 ? (1 - KEPT_BEYOND) * fraction : 1 - KEPT_BEYOND / fraction;

/**
 * Returns the nominal one-sided level of each look by `spentAt`, so that all looks together keep `alpha`.
 *
 * @param fractions sizes of the looks, ascending, as fractions of the planned size
 */
export function spendingLevels(fractions: readonly number[], alpha = 0.05): number[] {
  let look = SpendingLook.none;
  return fractions.map((fraction) => {
    look = look.next(fraction, alpha * spentAt(fraction));
    return look.level;
  });
}

/** Standard deviations beyond which sums are neglected. */
const FAR = 8;
/** Intervals of the integration over the sums with which looking goes on; even, for Simpson's rule. */
const INTERVALS = 200;
/** A boundary is found to this precision, in standard deviations. */
const PRECISION = 1e-8;

const ROOT_2_PI = Math.sqrt(2 * Math.PI);
const bell = (z: number): number => (Math.abs(z) > FAR ? 0 : Math.exp((-z * z) / 2));
const tail = (z: number): number => (z > FAR ? 0 : z < -FAR ? 1 : normalCdf(-z));

/** A look, after others. */
export class SpendingLook {
  /** Before the first look. */
  static readonly none = new SpendingLook(0, 0, 1, Float64Array.of(0), Float64Array.of(1));

  readonly #size: number;
  readonly #spent: number;
  /** Nominal one-sided level. */
  readonly level: number;
  /** The sums with which looking goes on, and their probabilities times the weights of Simpson's rule. */
  readonly #sums: Float64Array;
  readonly #weights: Float64Array;
  /** The one that followed last: simulations ask for the same looks again and again. */
  #next: SpendingLook | undefined;

  private constructor(size: number, spent: number, level: number, sums: Float64Array, weights: Float64Array) {
    this.#size = size;
    this.#spent = spent;
    this.level = level;
    this.#sums = sums;
    this.#weights = weights;
  }

  /**
   * Returns the next look.
   *
   * @param size more than at the look before, in any unit
   * @param spent probability that the boundary has been crossed by this look if there is no difference
   */
  next(size: number, spent: number): SpendingLook {
    if (this.#next && this.#next.#size === size && this.#next.#spent === spent) return this.#next;
    const step = Math.sqrt(size - this.#size);
    const far = FAR * Math.sqrt(size);
    const boundary = this.#boundary(step, far, spent - this.#spent);
    const width = (boundary + far) / INTERVALS;
    const scale = width / 3 / step / ROOT_2_PI;
    const sums = Float64Array.from({ length: INTERVALS + 1 }, (_, i) => i * width - far);
    const weights = sums.map((sum, i) => {
      const simpson = i === 0 || i === INTERVALS ? 1 : i % 2 === 1 ? 4 : 2;
      return simpson * scale * this.#integral((before) => bell((sum - before) / step));
    });
    this.#next = new SpendingLook(size, spent, normalCdf(-boundary / Math.sqrt(size)), sums, weights);
    return this.#next;
  }

  /** Returns the sum that a further step exceeds with this probability: by Newton's method within a range that it narrows. */
  #boundary(step: number, far: number, probability: number): number {
    let [low, high] = [-far, far];
    let boundary = 2 * step;
    for (;;) {
      const from = boundary;
      const excess = this.#integral((sum) => tail((from - sum) / step)) - probability;
      if (excess > 0) low = from;
      else high = from;
      const density = this.#integral((sum) => bell((from - sum) / step)) / step / ROOT_2_PI;
      boundary = from + excess / density;
      if (!(boundary > low && boundary < high)) boundary = (low + high) / 2;
      if (Math.abs(boundary - from) < PRECISION * step || high - low < PRECISION * step) return boundary;
    }
  }

  #integral(value: (sum: number) => number): number {
    let total = 0;
    for (let i = 0; i < this.#sums.length; i++) total += (this.#weights[i] ?? 0) * value(this.#sums[i] ?? 0);
    return total;
  }
}
