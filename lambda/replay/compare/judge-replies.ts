/** Asks the judge about every pair of replies that differ, several at a time, within a budget. */
import type { Judge } from '../../judge/types.ts';
import type { ReplyComparison } from './compare-replies.ts';
import { judgePair, maxPairCostUsd, type Pair, type PairVerdict } from './pairwise.ts';
import { type Judged, nothingJudged } from './quality.ts';

/** The judge's own limiter decides how many calls go on; this is how many pairs wait for it. */
const PAIRS_AT_A_TIME = 16;

export interface JudgeSettings {
  judge: Judge;
  /** Most that may be spent, US dollars. Default: no limit. */
  budgetUsd?: number;
  signal?: AbortSignal;
}

export interface JudgedAll {
  judged: Judged;
  /** `null`: the price is not known. */
  usd: number | null;
}

/**
 * @param pairOf `undefined` for an item that is not to be judged: there is nothing to ask where the replies are the same
 * @throws what the judge throws when it cannot be asked
 */
export async function judgeAll<T>(
  { judge, budgetUsd, signal }: JudgeSettings,
  items: AsyncIterable<T>,
  pairOf: (item: T) => Pair | undefined,
  onJudged: (item: T, verdict: PairVerdict) => void,
): Promise<JudgedAll> {
  const result: JudgedAll = { judged: nothingJudged(), usd: 0 };
  const running = new Set<Promise<void>>();
  /** What the pairs that are being judged can cost at most. */
  let reserved = 0;
  for await (const item of items) {
    const pair = pairOf(item);
    if (!pair) continue;
    signal?.throwIfAborted();
    const most = budgetUsd === undefined ? 0 : (maxPairCostUsd(judge, pair) ?? 0);
    const over = (): boolean => budgetUsd !== undefined && (result.usd ?? 0) + reserved + most > budgetUsd;
    // A pair costs less than it can: what is under way may leave room.
    while (over() && running.size > 0) await Promise.race(running);
    if (over()) {
      result.judged.overBudget++;
      continue;
    }
    reserved += most;
    const one = judgePair(judge, pair, signal).then((verdict) => {
      running.delete(one);
      reserved -= most;
      result.judged[verdict.verdict]++;
      result.usd = result.usd === null || verdict.usd === null ? null : result.usd + verdict.usd;
      onJudged(item, verdict);
    });
    // Thrown by the race or at the end; without this it would be an unhandled rejection as well.
    one.catch(() => {});
    running.add(one);
    if (running.size >= PAIRS_AT_A_TIME) await Promise.race(running);
  }
  await Promise.all(running);
  return result;
}

/** Whether there is anything to ask: what is the same, or failed, needs no judge. */
export const worthJudging = (comparison: ReplyComparison | undefined): comparison is ReplyComparison =>
  comparison !== undefined && comparison.status === 'both-ok' && !comparison.same;
