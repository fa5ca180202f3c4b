/** How many pairs decide a threshold, in 80% of the replays. The gate and its plan ask the same. */
import { smallestSize } from '../../core/statistics/power.ts';
import { type Evidence, PAIRS_FOR_CLUSTERS } from './evidence.ts';

/** A threshold that needs more pairs than this is called undecidable: the estimate is practically at the bound. */
export const MOST_PAIRS = 1_000_000;

/** What passing and failing require: the level of each bound. */
export interface Levels {
  pass: number;
  fail: number;
}

/**
 * Returns how many pairs of a new replay decide at `POWER`, if the truth is what the evidence shows.
 *
 * @param from smallest size
 * @returns `undefined` if no reasonable number does
 */
export function sizeOf(
  { atSize }: Evidence,
  limit: number,
  { pass, fail }: Levels,
  from: number,
  most = MOST_PAIRS,
): number | undefined {
  if (!atSize) return undefined;
  const decides = (pairs: number): boolean => {
    const { lower, upper } = atSize(pairs);
    return upper(pass) <= limit || lower(fail) > limit;
  };
  // Errors of which there is none are taken to come in clusters from some size on: fewer pairs may pass then, where more do not.
  const few = PAIRS_FOR_CLUSTERS - 1;
  const found = from > few ? undefined : smallestSize(from, few, decides);
  return found ?? smallestSize(Math.max(from, few + 1), most, decides);
}

/** Requests for so many pairs: not every request makes a pair. */
export const requestsFor = (pairs: number, { seen, of }: Evidence): number =>
  Math.ceil((pairs * Math.max(seen, of)) / seen);

/** Pairs among so many requests; at least one. */
export const pairsIn = (requests: number, { seen, of }: Evidence): number =>
  Math.max(1, Math.floor((requests * seen) / Math.max(seen, of)));
