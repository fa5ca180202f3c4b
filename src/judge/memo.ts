/** Caches values that depend only on a set of scorers, so that they are not computed for every capture. */
import type { JudgeScorer } from './types.ts';

/**
 * Maximum number of cached sets. Few sets are in use: sets that apply to a kind of capture, and subsets that are asked
 * again.
 */
const MAX_KEPT = 200;

const ids = new WeakMap<JudgeScorer, number>();
let lastId = 0;

/** Scorers are compared by identity: two with the same name and version may differ. */
function idOf(scorer: JudgeScorer): number {
  const id = ids.get(scorer) ?? lastId + 1;
  lastId = Math.max(lastId, id);
  ids.set(scorer, id);
  return id;
}

/** @param make a function that depends only on its arguments */
export function memoByScorers<Extra extends string[], Made>(
  make: (scorers: readonly JudgeScorer[], ...extra: Extra) => Made,
): (scorers: readonly JudgeScorer[], ...extra: Extra) => Made {
  const kept = new Map<string, Made>();
  return (scorers, ...extra) => {
    const key = `${extra} ${scorers.map(idOf).join(' ')}`;
    const known = kept.get(key);
    if (known !== undefined) return known;
    const made = make(scorers, ...extra);
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(key, made);
    return made;
  };
}

/**
 * Returns the variant of a scorer that `make` creates. Creates it only once, so that values cached for it stay valid.
 */
export function memoByScorer(make: (scorer: JudgeScorer) => JudgeScorer): (scorer: JudgeScorer) => JudgeScorer {
  const kept = new WeakMap<JudgeScorer, JudgeScorer>();
  return (scorer) => {
    const made = kept.get(scorer) ?? make(scorer);
    kept.set(scorer, made);
    return made;
  };
}
