/**
 * Tests whether the share of failures has risen, how large an unnoticed rise could be, and when it rose. Cases may be
 * alike, such as the turns of one conversation: callers divide their number by a factor.
 */

import { sum } from '../values/sum.ts';
import { betaBinomialTail, betaQuantile } from './distributions.ts';
import type { SampledShare } from './share.ts';

/** Cases of an hour. `failing`: the share of failing cases. */
export type HourOfCases = Record<'hourMs' | 'cases' | 'failing', number>;

/**
 * Returns the probability of a share as high as the second one if both are equal: Fisher's exact test (1935), as the tail of a beta-binomial
 * distribution, so that the numbers of cases need not be whole.
 */
export function chanceOfRise(before: SampledShare, after: SampledShare): number {
  const failed = before.share * before.of;
  if (!(before.of > 0 && after.of > 0) || after.share <= before.share) return 1;
  return betaBinomialTail(after.share * after.of, after.of, failed + 1, before.of - failed);
}

/** A rise of this size is found in 95 of 100 samples. */
const POWER = 0.95;

/**
 * Returns the smallest rise that the test finds with a probability of 95% at this level, or the largest possible rise.
 * No larger rise has gone unnoticed.
 *
 * @param cases of the sample after; its number of failures does not matter
 */
export function smallestRiseFound(before: SampledShare, cases: number, alpha: number): number {
  if (!(before.of > 0 && cases > 0)) return 1;
  const failed = before.share * before.of;
  const most = 1 - (failed > 0 ? betaQuantile(1 - POWER, failed, before.of - failed + 1) : 0);
  let [low, high] = [before.share, 1];
  if (chanceOfRise(before, { share: 1, of: cases }) > alpha) return most;
  while (high - low > 1e-4) {
    const middle = (low + high) / 2;
    if (chanceOfRise(before, { share: middle, of: cases }) > alpha) low = middle;
    else high = middle;
  }
  // Combine the uncertainty of both samples.
  const both = 1 / (1 / before.of + 1 / cases);
  return Math.min(most, Math.max(0, betaQuantile(POWER, high * both, both - high * both + 1) - before.share));
}

/**
 * Returns by which factor the shares of neighbouring hours differ more than those of independent cases: the number of
 * cases worth one independent case, at least 1.
 *
 * @param pairs number of differences, and the sum of their squares in units of the variance of independent cases
 */
export const factorOf = ({ pairs, squares }: { pairs: number; squares: number }): number =>
  Math.max(1, squares / pairs);

/**
 * Returns the pairs of neighbouring hours with cases, and the number of pairs with failures. Pairs without failures
 * carry no information about how alike cases are.
 */
export function neighbours(hours: readonly HourOfCases[]): { pairs: number; failing: number; squares: number } {
  const all = sum(hours.map(({ cases }) => cases));
  const share = sum(hours.map(({ cases, failing }) => cases * failing)) / all;
  const variance = share * (1 - share);
  if (!(variance > 0)) return { pairs: 0, failing: 0, squares: 0 };
  let [squares, failing] = [0, 0];
  for (let at = 1; at < hours.length; at += 1) {
    const [one, next] = [hours[at - 1], hours[at]] as [HourOfCases, HourOfCases];
    if (one.failing + next.failing > 0) failing += 1;
    squares += (one.failing - next.failing) ** 2 / (variance * (1 / one.cases + 1 / next.cases));
  }
  return { pairs: hours.length - 1, failing, squares };
}

/** Twice the logarithm of the likelihood falls by this much at the ends of a 95% interval. */
const LIKELIHOOD_95 = 3.84;

/**
 * Returns the hour in which a share rose, and the hours that cannot be excluded: the change point with the largest
 * likelihood.
 *
 * @param hours in their order, from well before the change until now
 * @param factor number of cases worth one independent case
 */
export function changePoint(
  hours: readonly HourOfCases[],
  factor: number,
): Record<'at' | 'from' | 'to', number> | undefined {
  const cases = sum(hours.map((hour) => hour.cases));
  const failed = sum(hours.map((hour) => hour.cases * hour.failing));
  const gains: { hourMs: number; gain: number }[] = [];
  let [n, x] = [0, 0];
  for (const hour of hours) {
    // The change is at the beginning of the hour.
    const rises = n > 0 && (failed - x) / (cases - n) > x / n;
    gains.push({ hourMs: hour.hourMs, gain: rises ? likelihood(x, n) + likelihood(failed - x, cases - n) : -Infinity });
    n += hour.cases;
    x += hour.cases * hour.failing;
  }
  const best = Math.max(...gains.map(({ gain }) => gain));
  const likely = gains.filter(({ gain }) => (2 * (best - gain)) / factor <= LIKELIHOOD_95);
  const at = gains.find(({ gain }) => gain === best);
  if (at === undefined || best === -Infinity) return undefined;
  return { at: at.hourMs, from: likely[0]?.hourMs ?? at.hourMs, to: likely.at(-1)?.hourMs ?? at.hourMs };
}

/** Returns the logarithm of the likelihood of a share by its own estimate. */
const likelihood = (hits: number, of: number): number => term(hits, of) + term(of - hits, of);
const term = (count: number, of: number): number => (count > 0 ? count * Math.log(count / of) : 0);
