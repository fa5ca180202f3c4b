/** Differences of two shares, with one-sided bounds that hold for few cases and rare events. */
import type { Bounds } from './bounds.ts';
import { binomialCdf, binomialProbability, normalCdf } from './distributions.ts';

/** Two counts: the difference of the shares falls with the first one and rises with the second one. */
interface Table {
  first: number;
  second: number;
  /** The first count is binomial of this many trials; so is the second one, of `left(first)` trials. */
  trials: number;
  left(first: number): number;
  score(first: number, second: number, difference: number): Score;
}

interface Score {
  /** By how many standard errors the counts are above the prediction of the difference; negative if below. */
  z: number;
  /** Probabilities of the two counts that are likeliest if the difference is the true one. */
  p: number;
  q: number;
}

/** Up to this sum of the counts, tail probabilities are exact. Beyond it, the normal approximation is as good. */
const FEW = 100;
/** Tables whose scores differ only by rounding are equally extreme. */
const ROUNDING = 1e-9;

/**
 * Returns the probability of counts at least as low as observed if `difference` is true: the score test. With few
 * counts, the probabilities of all tables are summed at the likeliest shares ("estimated p-value", Lloyd 2008).
 */
function tail({ first, second, trials, left, score }: Table, difference: number): number {
  const { z, p, q } = score(first, second, difference);
  if (first + second > FEW) return normalCdf(z);
  const spread = 7 * Math.sqrt(trials * p * (1 - p)) + 10;
  const last = Math.min(trials, trials * p + spread);
  let sum = 0;
  let most = -1;
  for (let a = Math.max(0, Math.floor(trials * p - spread)); a <= last; a += 1) {
    while (most < left(a) && score(a, most + 1, difference).z <= z + ROUNDING) most += 1;
    if (most >= 0) sum += binomialProbability(a, trials, p) * binomialCdf(most, left(a), q);
  }
  return sum;
}

/** Returns the largest difference that the counts do not exclude at level alpha. */
function upperEnd(table: Table, estimate: number, alpha: number): number {
  let low = estimate;
  let high = 1;
  while (high - low > 1e-9) {
    const middle = (low + high) / 2;
    if (tail(table, middle) > alpha) low = middle;
    else high = middle;
  }
  return high;
}

/** Combines the upper bounds of a table and of its mirror image, in which before and after have changed places. */
const bounds = (estimate: number, table: Table, mirrored: Table): Bounds => ({
  estimate,
  lower: (alpha) => -upperEnd(mirrored, -estimate, alpha),
  upper: (alpha) => upperEnd(table, estimate, alpha),
});

const NOTHING: Bounds = { estimate: Number.NaN, lower: () => -1, upper: () => 1 };

/** Score of Tango (1998): the restricted estimate of the smaller discordant share is the root of a quadratic equation. */
function pairedScore(n: number, first: number, second: number, difference: number): Score {
  const linear = first + second - difference * (2 * n + first - second);
  const constant = first * difference * (1 - difference);
  const p = Math.max(0, -difference, (linear + Math.sqrt(linear * linear + 8 * n * constant)) / (4 * n));
  const variance = n * (2 * p + difference * (1 - difference));
  const distance = second - first - n * difference;
  const z = distance === 0 ? 0 : distance / Math.sqrt(Math.max(variance, 1e-300));
  return { z, p, q: p >= 1 ? 0 : (p + difference) / (1 - p) };
}

/**
 * Returns the difference of two shares of the same cases, (onlyAfter − onlyBefore) ÷ pairs, between −1 and 1. Cases
 * must be independent of each other. Cases that count in both shares or in neither only count in `pairs`.
 *
 * @example
 *     const { estimate, lower } = pairedDifference({ onlyBefore: 2, onlyAfter: 9, pairs: 100 });
 *     estimate      // 0.07
 *     lower(0.05)   // 0.0158
 */
export function pairedDifference(counts: { onlyBefore: number; onlyAfter: number; pairs: number }): Bounds {
  const { onlyBefore, onlyAfter, pairs } = counts;
  if (pairs === 0) return NOTHING;
  const table = (first: number, second: number): Table => ({
    first,
    second,
    trials: pairs,
    left: (a) => pairs - a,
    score: (a, b, difference) => pairedScore(pairs, a, b, difference),
  });
  return bounds((onlyAfter - onlyBefore) / pairs, table(onlyBefore, onlyAfter), table(onlyAfter, onlyBefore));
}

/** Score of Miettinen and Nurminen (1985): the restricted estimate of the first share is the root of a cubic equation. */
function independentScore(m: number, n: number, first: number, second: number, difference: number): Score {
  const all = m + n;
  const hits = first + second;
  const square = ((n + 2 * m) * difference - all - hits) / (3 * all);
  const linear = ((m * difference - all - 2 * first) * difference + hits) / all;
  const constant = (first * difference * (1 - difference)) / all;
  const half = square ** 3 - (linear * square) / 2 + constant / 2;
  const radius = (half < 0 ? -1 : 1) * Math.sqrt(Math.max(0, square * square - linear / 3));
  const cosine = radius === 0 ? 1 : Math.min(1, Math.max(-1, half / radius ** 3));
  const root = 2 * radius * Math.cos((Math.PI + Math.acos(cosine)) / 3) - square;
  const p = Math.min(1, 1 - difference, Math.max(0, -difference, root));
  const q = p + difference;
  const variance = ((p * (1 - p)) / m + (q * (1 - q)) / n) * (all / (all - 1));
  const distance = second / n - first / m - difference;
  return { z: Math.abs(distance) < 1e-12 ? 0 : distance / Math.sqrt(Math.max(variance, 1e-300)), p, q };
}

/**
 * Returns the difference of two shares of different cases (hits, total), after − before, between −1 and 1. Cases must be
 * independent of each other.
 */
export function independentDifference(before: [number, number], after: [number, number]): Bounds {
  const [first, m] = before;
  const [second, n] = after;
  if (m === 0 || n === 0) return NOTHING;
  // The difference of the other cases' shares is the same with before and after exchanged, and has the smaller counts.
  if (2 * (first + second) > m + n) return independentDifference([n - second, n], [m - first, m]);
  const table = (a: number, of: number, b: number, ofOther: number): Table => ({
    first: a,
    second: b,
    trials: of,
    left: () => ofOther,
    score: (x, y, difference) => independentScore(of, ofOther, x, y, difference),
  });
  return bounds(second / n - first / m, table(first, m, second, n), table(second, n, first, m));
}

/**
 * Computes McNemar's exact two-sided test (1947) of a difference of two shares of the same cases. Returns the
 * probability, under no difference, that the cases in only one of the shares are divided at least as unevenly.
 *
 * @example
 *     mcnemar(2, 9)   // 0.065
 */
export function mcnemar(onlyBefore: number, onlyAfter: number): number {
  const discordant = onlyBefore + onlyAfter;
  return Math.min(1, 2 * binomialCdf(Math.min(onlyBefore, onlyAfter), discordant, 0.5));
}
