/** Confidence bounds of a quantile, from the order statistics of a sample. */
import { binomialProbability, normalQuantile } from './distributions.ts';

/** Values below a quantile are counted up to this many standard deviations from the expected count: levels from 1e-15 on. */
const WINDOW = 8;
/** Tables kept, by sample size and quantile: a gate asks for few, a simulation again and again for the same. */
const KEPT_TABLES = 64;

interface Scores {
  /** Rank of the first score, from 1. */
  from: number;
  count: number;
  /** The score at this index. Few are needed of the table for a large sample, so each is computed when it is. */
  at(index: number): number;
}

const tables = new Map<string, Scores>();

/**
 * For each rank near the quantile `q` of a sample of `n` values, the normal score of its level: the value of that rank is
 * below the population's quantile in a share Φ(−score) of all samples. That is the binomial probability that at least so many
 * of the values are below the quantile (David and Nagaraja 2003, "Order Statistics", 7.1).
 */
function scoresOf(n: number, q: number): Scores {
  const key = `${n} ${q}`;
  const known = tables.get(key);
  if (known) return known;
  const spread = WINDOW * (Math.sqrt(n * q * (1 - q)) + 1);
  const from = Math.max(1, Math.floor(n * q - spread));
  const to = Math.min(n, Math.ceil(n * q + spread));
  const probabilities = Float64Array.from({ length: to - from + 1 }, (_, i) => binomialProbability(from + i, n, q));
  // From both ends, because the difference from 1 would lose the digits of small tails.
  const below = new Float64Array(probabilities.length);
  below[0] = from === 1 ? (1 - q) ** n : 0;
  for (let i = 1; i < below.length; i++) below[i] = (below[i - 1] ?? 0) + (probabilities[i - 1] ?? 0);
  const atLeast = probabilities.slice();
  for (let i = atLeast.length - 2; i >= 0; i--) atLeast[i] = (atLeast[i] ?? 0) + (atLeast[i + 1] ?? 0);
  const scores = new Float64Array(atLeast.length).fill(Number.NaN);
  const scoreOf = (less: number, more: number): number => (less < more ? normalQuantile(less) : -normalQuantile(more));
  const at = (index: number): number => {
    if (Number.isNaN(scores[index])) scores[index] = scoreOf(below[index] ?? 0, atLeast[index] ?? 0);
    return scores[index] ?? 0;
  };
  const found = { from, count: scores.length, at };
  if (tables.size >= KEPT_TABLES) tables.clear();
  tables.set(key, found);
  return found;
}

/**
 * Returns a function that gives the bound of the quantile `q` at a normal score: at 1.645, the value that is below the
 * population's quantile in 5% of all samples; at −1.645, the one that is above it. Between two ranks, it is on the line
 * between their values (as in Hettmansperger and Sheather 1986 and Hutson 1999), so the level is approximate there.
 *
 * @param sorted at least one value
 * @param effective number of independent values that would tell as much, each of whose ranks stands for several of the sample's; or
 *   more values than the sample has, if it were larger
 * @returns ±Infinity beyond the smallest and the largest value
 */
export function quantileAtScore(sorted: Float64Array, q: number, effective = sorted.length): (score: number) => number {
  const { from, count, at: scoreAt } = scoresOf(effective, q);
  const step = (sorted.length + 1) / (effective + 1);
  const valueAt = (i: number): number => {
    // Ranks of a larger sample may lie beyond the ends of this one.
    const at = Math.max(0, Math.min(sorted.length - 1, (from + i) * step - 1));
    const below = sorted[Math.floor(at)] ?? Number.NaN;
    return below + ((sorted[Math.ceil(at)] ?? Number.NaN) - below) * (at % 1);
  };
  return (score) => {
    let low = 0;
    let high = count - 1;
    if (score < scoreAt(low)) return -Infinity;
    if (score >= scoreAt(high)) return score > scoreAt(high) ? Infinity : valueAt(high);
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (scoreAt(middle) <= score) low = middle;
      else high = middle;
    }
    const [before, after] = [scoreAt(low), scoreAt(high)];
    return valueAt(low) + ((valueAt(high) - valueAt(low)) * (score - before)) / (after - before);
  };
}
