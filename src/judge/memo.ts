/** What follows from a set of scorers alone is made once, not for every capture. */
import type { JudgeScorer } from './types.ts';

/** Sets in use are few: those that apply to a kind of capture, and what is left of them to ask again. */
const MAX_KEPT = 200;

const ids = new WeakMap<JudgeScorer, number>();
let lastId = 0;

/** Scorers are told apart as objects: two of one name and version are not taken for the same. */
function idOf(scorer: JudgeScorer): number {
  let id = ids.get(scorer);
  if (id === undefined) {
    lastId += 1;
    id = lastId;
    ids.set(scorer, id);
  }
  return id;
}

/** @param make must depend on nothing but its arguments */
export function memoByScorers<Extra extends string, Made>(
  make: (scorers: readonly JudgeScorer[], extra: Extra) => Made,
): (scorers: readonly JudgeScorer[], extra: Extra) => Made {
  const kept = new Map<string, Made>();
  return (scorers, extra) => {
    const key = `${extra} ${scorers.map(idOf).join(' ')}`;
    const known = kept.get(key);
    if (known !== undefined) return known;
    if (kept.size >= MAX_KEPT) kept.clear();
    const made = make(scorers, extra);
    kept.set(key, made);
    return made;
  };
}
