/** How many further pairs would probably decide a threshold that cannot tell, if the truth is what was seen. */
import type { Bounds } from '../../core/statistics/bounds.ts';
import { binomialCdf, normalQuantile } from '../../core/statistics/distributions.ts';
import { POWER, smallestSize } from '../../core/statistics/power.ts';
import { shareBounds } from '../../core/statistics/share.ts';
import type { Cases } from './evidence.ts';

/** A threshold that needs more pairs than this is called undecidable: the estimate is practically at the bound. */
const MOST_PAIRS = 1_000_000;

/** What passing and failing require: the level of each bound. */
export interface Levels {
  pass: number;
  fail: number;
}

/**
 * Returns how many pairs more would decide, at `POWER`, or `null` if no reasonable number would.
 *
 * @param decides whether so many pairs in all suffice; about all larger numbers then do too
 */
function furtherPairs(seen: number, decides: (pairs: number) => boolean): number | null {
  const pairs = smallestSize(seen, MOST_PAIRS, decides);
  return pairs === undefined ? null : pairs - seen;
}

/**
 * For a difference: its half-width falls with the square root of the pairs, and the estimate moves by what the further pairs
 * add to it.
 */
export function furtherForDifference(bounds: Bounds, limit: number, seen: number, levels: Levels): number | null {
  const passes = bounds.estimate < limit;
  const level = passes ? levels.pass : levels.fail;
  const half = passes ? bounds.upper(level) - bounds.estimate : bounds.estimate - bounds.lower(level);
  const error = half / normalQuantile(1 - level);
  if (!Number.isFinite(error)) return null;
  const distance = Math.abs(limit - bounds.estimate);
  return furtherPairs(seen, (pairs) => {
    const left = Math.sqrt(seen / pairs);
    return left * (half + normalQuantile(POWER) * error * Math.sqrt(1 - seen / pairs)) <= distance;
  });
}

/** The largest number from `low` on, below `high`, for which the test holds; `low − 1` if it holds for none. */
function largest(low: number, high: number, holds: (count: number) => boolean): number {
  let [from, to] = [low - 1, high];
  while (to - from > 1) {
    const middle = Math.floor((from + to) / 2);
    if (holds(middle)) from = middle;
    else to = middle;
  }
  return from;
}

/**
 * For a share of the pairs: the exact probability that the cases among the further pairs decide. Pairs without a verdict stay
 * the same share; where they make the difference, no number of pairs decides.
 *
 * @param limit as a share
 */
export function furtherForShare(
  { hits, open }: Pick<Cases, 'hits' | 'open'>,
  limit: number,
  seen: number,
  levels: Levels,
): number | null {
  const [least, most] = [hits / seen, (hits + open) / seen];
  if (most < limit) {
    return furtherPairs(seen, (pairs) => {
      const allowed = largest(hits + open, pairs, (count) => shareBounds(count, pairs).upper(levels.pass) <= limit);
      return binomialCdf(allowed - hits - open, pairs - seen, most) >= POWER;
    });
  }
  if (least <= limit) return null;
  return furtherPairs(seen, (pairs) => {
    const tooFew = largest(hits, pairs, (count) => shareBounds(count, pairs).lower(levels.fail) <= limit);
    return binomialCdf(tooFew - hits, pairs - seen, least) <= 1 - POWER;
  });
}
