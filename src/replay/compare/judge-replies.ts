/** Asks the judge about each pair of replies that differ: several pairs concurrently, within a budget. */

import { toNamedError } from '../../core/errors/errors.ts';
import { JudgeHeld } from '../../judge/errors.ts';
import type { Judge } from '../../judge/types.ts';
import type { SpendingLimit } from '../../limits/spending-limit.ts';
import { addUsd, judgePair, type PairVerdict, unaskable } from './pairwise.ts';
import {
  addFailed,
  type Judged,
  nothingJudged,
  type ReplyQualityTally,
  replyRow,
  type WorseReply,
  withoutAnyVerdict,
} from './quality.ts';
import { pairOf, type ReplyPair, type StoredReply } from './replies-file.ts';

/** Pairs that wait for the judge. The judge's own limiter bounds its concurrent calls. */
const CONCURRENT_PAIRS = 16;

export interface JudgeSettings {
  judge: Judge;
  /** Absent: there is no limit. */
  limit?: Pick<SpendingLimit, 'reserve'>;
  signal?: AbortSignal;
  /** Called before each pair; `false` starts no more of them. */
  goOn?(): boolean;
}

export interface JudgedAll {
  judged: Judged;
  /** US dollars spent, including on pairs without a verdict; `null`: the price is unknown. */
  usd: number | null;
}

export const noneJudged = (): JudgedAll => ({ judged: nothingJudged(), usd: 0 });

/**
 * Asks the judge about all items.
 *
 * @param pairOf returns `undefined` for an item that needs no verdict, such as two equal replies
 * @param onDone called for each finished item; without a verdict if none was needed or the budget was used up
 * @param result receives counts and cost, even if this function throws
 * @throws the first error of the judge, once all calls in flight have ended and their verdicts are counted
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
  /** A pair that cannot be built fails alone. */
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
    if (running.size >= CONCURRENT_PAIRS) await Promise.race(running);
  }
  await Promise.all(running);
  if (failure) throw failure.error;
  return result;
}

/** Why some pairs have no verdict. */
interface JudgeFailure {
  name: string;
  message: string;
}

export const judgeWarning = ({ name, message }: JudgeFailure): string =>
  `Not all pairs are judged: ${name}: ${message}`;

const JUDGING_STOPPED: JudgeFailure = {
  name: 'JudgingStopped',
  message: 'The judge was stopped; its verdicts so far are counted',
};

/** Like `judgeAll`, but returns the failure together with the verdicts so far. */
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

/** The reply, if the judge finds it worse. */
export const worseReply = (stored: StoredReply, { verdict, rationales }: PairVerdict): WorseReply | undefined =>
  verdict === 'worse' && stored.comparison
    ? { row: replyRow(stored), comparison: stored.comparison, rationale: rationales[0] }
    : undefined;

/** The judge's part in the comparison of a run. */
export interface JudgingResult {
  /** US dollars; `null`: the price is unknown. */
  judgeUsd?: number | null;
  /** Why some pairs have no verdict. The verdicts so far are counted. */
  judgeFailure?: JudgeFailure;
}

/** Asks the judge about the replies that differ and adds its verdicts to the tally. */
export async function judgeReplies(
  tally: ReplyQualityTally,
  judging: JudgeSettings,
  replies: AsyncIterable<StoredReply>,
  onVerdict: (stored: StoredReply, verdict: PairVerdict) => void = () => {},
): Promise<JudgingResult> {
  const onDone = (stored: StoredReply, verdict?: PairVerdict): void => {
    if (!verdict) return;
    onVerdict(stored, verdict);
    const worse = worseReply(stored, verdict);
    if (worse) tally.addJudgedWorse(worse);
  };
  const { judged, usd, failure } = await judgeMost(judging, replies, pairOf, onDone);
  tally.quality.judged = judged;
  return { judgeUsd: usd, ...(failure ? { judgeFailure: failure } : {}) };
}

/** A line of `judged.jsonl`. */
export interface JudgedReply
  extends PairVerdict,
    Pick<StoredReply, 'key' | 'event_id' | 'request_id' | 'captured_trace_id'> {
  /** The judge, e.g. `bedrock:/<model>`. */
  judge: string;
}

export function judgedLine(stored: StoredReply, judge: string, verdict: PairVerdict): string {
  const { key, event_id, request_id, captured_trace_id } = stored;
  return JSON.stringify({ key, event_id, request_id, captured_trace_id, judge, ...verdict } satisfies JudgedReply);
}
