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
  const looks = new SpendingLooks();
  return fractions.map((fraction) => looks.next(fraction, alpha * spentAt(fraction)));
}

/** Standard deviations beyond which sums are neglected. */
const FAR = 8;
/** Intervals of the integration over the sums with which looking goes on; even, for Simpson's rule. */
const INTERVALS = 300;
/** Halvings of a range of 16 standard deviations: to 1e-9. */
const HALVINGS = 34;

/** Computes the levels of looks, one after the other. */
export class SpendingLooks {
  #size = 0;
  #spent = 0;
  /** The sums with which looking goes on, and their probabilities times the weights of Simpson's rule. */
  #sums = Float64Array.of(0);
  #weights = Float64Array.of(1);

  /**
   * Returns the nominal one-sided level of the next look.
   *
   * @param size more than at the look before, in any unit
   * @param spent probability that the boundary has been crossed by this look if there is no difference
   */
  next(size: number, spent: number): number {
    const step = Math.sqrt(size - this.#size);
    const far = FAR * Math.sqrt(size);
    let [low, high] = [-far, far];
    for (let n = 0; n < HALVINGS; n++) {
      const boundary = (low + high) / 2;
      const crossed = this.#integral((sum) => normalCdf((sum - boundary) / step));
      if (crossed > spent - this.#spent) low = boundary;
      else high = boundary;
    }
    this.#goOn(step, -far, high);
    this.#size = size;
    this.#spent = spent;
    return normalCdf(-high / Math.sqrt(size));
  }

  /** Keeps the sums between `from` and the boundary, after a further step. */
  #goOn(step: number, from: number, boundary: number): void {
    const width = (boundary - from) / INTERVALS;
    const scale = width / 3 / step / Math.sqrt(2 * Math.PI);
    const sums = Float64Array.from({ length: INTERVALS + 1 }, (_, i) => from + i * width);
    this.#weights = sums.map((sum, i) => {
      const simpson = i === 0 || i === INTERVALS ? 1 : i % 2 === 1 ? 4 : 2;
      return simpson * scale * this.#integral((before) => Math.exp(-(((sum - before) / step) ** 2) / 2));
    });
    this.#sums = sums;
  }

  #integral(value: (sum: number) => number): number {
    let total = 0;
    for (let i = 0; i < this.#sums.length; i++) total += (this.#weights[i] ?? 0) * value(this.#sums[i] ?? 0);
    return total;
  }
}
