/** Asks the judge about every pair of replies that differ, several at a time, within a limit of money. */

import type { SpendingLimit } from '../../judge/budget/spending-limit.ts';
import { JudgeHeld } from '../../judge/errors.ts';
import type { Judge } from '../../judge/types.ts';
import { toNamedError } from '../../shared/errors.ts';
import type { ReplyComparison } from './compare-replies.ts';
import { addUsd, judgePair, type PairVerdict, type ReplyPair, unaskable } from './pairwise.ts';
import { addFailed, type Judged, nothingJudged, withoutAnyVerdict } from './quality.ts';
import { replyMessageOf, type StoredReply } from './replies-file.ts';

/** The judge's own limiter decides how many calls go on; this is how many pairs wait for it. */
const PAIRS_AT_A_TIME = 16;

export interface JudgeSettings {
  judge: Judge;
  /** Absent: there is no limit. */
  limit?: Pick<SpendingLimit, 'reserve'>;
  signal?: AbortSignal;
  /** Asked before each further pair: `false` begins no more of them. */
  goOn?(): boolean;
}

export interface JudgedAll {
  judged: Judged;
  /** All that was spent, on pairs without a verdict too; `null`: the price is not known. */
  usd: number | null;
}

export const noneJudged = (): JudgedAll => ({ judged: nothingJudged(), usd: 0 });

/**
 * @param pairOf `undefined` for an item that is not to be judged: there is nothing to ask where the replies are the same
 * @param onDone called for each item as soon as nothing more is to be done for it; without a verdict when there was no
 * money left for it, or nothing to ask
 * @param result what is counted and paid is added to it, also when something is thrown
 * @throws the judge's first failure to be asked at all, when what was under way has come to its end: its verdicts are kept
 */
export async function judgeAll<T>(
  { judge, limit, signal, goOn }: JudgeSettings,
  items: AsyncIterable<T> | Iterable<T>,
  pairOf: (item: T) => ReplyPair | undefined,
  onDone: (item: T, verdict?: PairVerdict) => void,
  result: JudgedAll = noneJudged(),
): Promise<JudgedAll> {
  const running = new Set<Promise<void>>();
  let failure: { error: unknown } | undefined;
  const judgeOne = async (item: T, pair: ReplyPair): Promise<void> => {
    const found = await judgePair(judge, pair, signal, { limit });
    result.usd = addUsd(result.usd, found.usd);
    if (found.verdict !== undefined) keep(item, found);
    else if (found.failure instanceof JudgeHeld) {
      result.judged.overBudget++;
      onDone(item);
    } else failure ??= { error: found.failure };
  };
  const keep = (item: T, found: PairVerdict): void => {
    result.judged[found.verdict]++;
    if (found.verdict === 'failed') addFailed(result.judged, found.error?.code ?? 'NO_VERDICT');
    onDone(item, found);
  };
  /** A reply that cannot be put before a judge stands alone. */
  const pairOrFault = (item: T): { pair: ReplyPair | undefined } | { fault: PairVerdict } => {
    try {
      return { pair: pairOf(item) };
    } catch (error) {
      return { fault: { verdict: 'failed', rationales: [], error: unaskable(error), usd: 0 } };
    }
  };
  for await (const item of items) {
    if (signal?.aborted) failure ??= { error: signal.reason };
    if (failure || goOn?.() === false) break;
    const found = pairOrFault(item);
    if ('fault' in found) {
      keep(item, found.fault);
      continue;
    }
    if (!found.pair) {
      onDone(item);
      continue;
    }
    const one = judgeOne(item, found.pair)
      .catch((error: unknown) => {
        failure ??= { error };
      })
      .finally(() => running.delete(one));
    running.add(one);
    if (running.size >= PAIRS_AT_A_TIME) await Promise.race(running);
  }
  await Promise.all(running);
  if (failure) throw failure.error;
  return result;
}

/** Why not all pairs are judged. */
export interface JudgeFailure {
  name: string;
  message: string;
}

export const judgeWarning = ({ name, message }: JudgeFailure): string =>
  `Not all pairs are judged: ${name}: ${message}`;

const JUDGING_STOPPED: JudgeFailure = {
  name: 'JudgingStopped',
  message: 'It was stopped; what it had said by then is counted',
};

/** As `judgeAll`, for those who keep what was said whatever ended it. */
export async function judgeMost<T>(
  judging: JudgeSettings,
  items: AsyncIterable<T> | Iterable<T>,
  pairOf: (item: T) => ReplyPair | undefined,
  onDone: (item: T, verdict?: PairVerdict) => void,
): Promise<JudgedAll & { failure?: JudgeFailure }> {
  const result = noneJudged();
  let stopped = false;
  const goOn = (): boolean => {
    stopped ||= judging.goOn?.() === false;
    return !stopped;
  };
  try {
    await judgeAll({ ...judging, goOn }, items, pairOf, onDone, result);
    const none = withoutAnyVerdict(result.judged);
    if (stopped) return { ...result, failure: JUDGING_STOPPED };
    return none === undefined ? result : { ...result, failure: { name: 'NoVerdict', message: none } };
  } catch (error) {
    return { ...result, failure: judging.signal?.aborted ? JUDGING_STOPPED : toNamedError(error) };
  }
}

/** Calls in flight when the judge is stopped are paid for: their answers are awaited for this long. */
const STOP_GRACE_MS = 10_000;

/** After the signal, asks about no further pair, and cancels the calls in flight when the grace period is over. */
export function stoppedBy(signal: AbortSignal, judging: JudgeSettings): JudgeSettings {
  const late = new AbortController();
  const stop = (): void => void setTimeout(() => late.abort(), STOP_GRACE_MS).unref();
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  return { ...judging, signal: late.signal, goOn: () => !signal.aborted };
}

/** Whether there is anything to ask: what is the same, or failed, needs no judge. */
export const worthJudging = (comparison: ReplyComparison | undefined): comparison is ReplyComparison =>
  comparison !== undefined && comparison.status === 'both-ok' && !comparison.same;

/** The captured and the new reply of a request, where a judge is to be asked about them. */
export function pairOf({ messages, captured, reply, comparison }: StoredReply): ReplyPair | undefined {
  const before = captured && replyMessageOf(captured);
  const after = replyMessageOf(reply);
  return worthJudging(comparison) && messages && before && after ? { messages, before, after } : undefined;
}

/** A line of `judged.jsonl`. */
export interface JudgedReply
  extends PairVerdict,
    Pick<StoredReply, 'key' | 'event_id' | 'request_id' | 'captured_trace_id'> {
  /** Who said so, e.g. `bedrock:/<model>`. */
  judge: string;
}

export function judgedLine(stored: StoredReply, judge: string, verdict: PairVerdict): string {
  const { key, event_id, request_id, captured_trace_id } = stored;
  return JSON.stringify({ key, event_id, request_id, captured_trace_id, judge, ...verdict } satisfies JudgedReply);
}
