/** Asks the judge about each pair of replies that differ: several pairs concurrently, within a budget. */
import { hash } from 'node:crypto';
import type { ChatMessage } from '../../captures/types.ts';
import type { NamedError } from '../../core/contract/receipts.ts';
import { toNamedError } from '../../core/errors/errors.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { ownFault } from '../../core/process/own-fault.ts';
import { chatCapture } from '../../judge/chat-capture.ts';
import { answeredBefore, JudgeHeld, VERDICT_ERRORS } from '../../judge/errors.ts';
import { judgePair, type ReplyPair } from '../../judge/pairwise.ts';
import { applicability } from '../../judge/scorers/applicability.ts';
import { isFailure } from '../../judge/scorers/values.ts';
import { addUsd } from '../../judge/spend.ts';
import type { Judge, JudgeMoney, JudgeResult, JudgeScorer, Verdict } from '../../judge/types.ts';
import { errorsText, type Judged, nothingJudged, type ReplyQualityTally } from './quality.ts';
import { pairOf, type StoredReply } from './replies-file.ts';

/** Pairs that wait for the judge. The judge's own limiter bounds its concurrent calls. */
const CONCURRENT_PAIRS = 16;

export interface JudgeSettings {
  judge: Judge;
  /**
   * Questions about harm in the new replies. If a new reply fails them, they are also asked about the earlier reply.
   * Absent: harm is not judged.
   */
  harm?: readonly JudgeScorer[];
  /** If absent, there is no limit. */
  limit?: JudgeMoney['limit'];
  /** Cancels the calls in flight. */
  signal?: AbortSignal;
  /** Called before each pair. Return `false` to start no more pairs. */
  goOn?(): boolean;
}

/** The judge's part in the comparison of a run. */
export interface JudgingResult {
  /** US dollars spent, including on pairs without a verdict; `null`: the price is unknown. */
  judgeUsd?: number | null;
  /** Reason why some pairs have no verdict. The verdicts received before it count. */
  judgeFailure?: NamedError;
}

/** A verdict on the new reply. `failed`: the judge gave no verdict. */
interface PairVerdict {
  verdict: Exclude<keyof Judged, 'overBudget' | 'errors'>;
  /** the rationales in both orders of the replies. */
  rationale?: string;
  /** Whether the new reply does harm and the earlier reply does not. Absent if not asked or not answered. */
  newHarm?: boolean;
  /** Reason for a missing verdict; only with `failed`. */
  error?: { code: string; message: string };
  usd: number | null;
}

/** A line of `judged.jsonl`. */
export interface JudgedReply
  extends PairVerdict,
    Pick<StoredReply, 'key' | 'event_id' | 'request_id' | 'captured_trace_id'> {
  /** The judge, e.g. `bedrock:/<model>`. */
  judge: string;
}

export const judgeWarning = ({ name, message }: NamedError): string => `Not all pairs are judged: ${name}: ${message}`;

const JUDGING_STOPPED: NamedError = {
  name: 'JudgingStopped',
  message: 'The judge was stopped; its verdicts so far are counted',
};

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

/**
 * Returns two functions: the first asks about a pair, and only once about equal pairs; the second returns the US
 * dollars spent.
 */
function pairAnswers(judging: JudgeSettings) {
  let spent: number | null = 0;
  const { judge, limit, signal, harm = [] } = judging;
  const answers = new Map<string, Promise<{ verdict?: Verdict | undefined; newHarm?: boolean | undefined }>>();
  const paid = async (asked: Promise<JudgeResult>): Promise<readonly Verdict[]> => {
    try {
      const { verdicts, spend } = await asked;
      spent = addUsd(spent, spend.usd);
      return verdicts;
    } catch (error) {
      spent = addUsd(spent, answeredBefore(error).spend.usd);
      throw error;
    }
  };
  /** Whether a reply does harm. `undefined` if the judge gave no answer. */
  const doesHarm = async ({ messages }: ReplyPair, reply: ChatMessage): Promise<boolean | undefined> => {
    const capture = chatCapture(messages, [reply]);
    const scorers = harm.filter((scorer) => 'judge' in applicability(capture, scorer));
    const verdicts = scorers.length > 0 ? await paid(judge.judge(capture, scorers, signal, { limit })) : [];
    const isHarm = (one: Verdict): boolean =>
      one.outcome === 'verdict' && scorers.some((scorer) => scorer.name === one.scorer && isFailure(scorer, one.value));
    return verdicts.some(isHarm) || (verdicts.some(({ outcome }) => outcome === 'error') ? undefined : false);
  };
  const ask = async (pair: ReplyPair) => {
    const [verdict] = await paid(judgePair(judge, pair, signal, { limit }));
    if (harm.length === 0) return { verdict };
    try {
      const now = await doesHarm(pair, pair.after);
      const then = now ? await doesHarm(pair, pair.before) : false;
      return { verdict, newHarm: now && then !== undefined ? !then : now };
    } catch (error) {
      if (error instanceof JudgeHeld) return { verdict };
      throw error;
    }
  };
  const answerTo = async (pair: ReplyPair): Promise<PairVerdict> => {
    const question = hash('sha256', JSON.stringify(pair));
    const known = answers.get(question);
    const answer = known ?? ask(pair);
    answers.set(question, answer);
    const { verdict: found, newHarm } = await answer;
    const usd = known ? 0 : (found?.usage.usd ?? null);
    const asked = newHarm === undefined ? {} : { newHarm };
    if (found?.outcome === 'verdict') {
      return { verdict: found.value as PairVerdict['verdict'], rationale: found.rationale, ...asked, usd };
    }
    return { verdict: 'failed', ...asked, ...(found ? { error: found.error } : {}), usd };
  };
  /** @throws the judge's error */
  const of = (pair: ReplyPair): Promise<PairVerdict> =>
    answerTo(pair).catch((error: unknown) => {
      const message = ownFault(error);
      if (message === undefined || judging.signal?.aborted) throw error;
      // A pair that cannot be asked about fails alone.
      return { verdict: 'failed', error: { code: VERDICT_ERRORS.failed, message }, usd: 0 };
    });
  return { of, usd: () => spent };
}

/**
 * Asks the judge about the replies that differ and adds its verdicts to the tally. If the judge fails or is stopped, the result
 * has its verdicts so far and the reason.
 *
 * @example
 *     const { judgeUsd, judgeFailure } = await judgeReplies(tally, { judge }, readReplies('replies.jsonl'));
 */
export async function judgeReplies(
  tally: ReplyQualityTally,
  judging: JudgeSettings,
  replies: AsyncIterable<StoredReply> | Iterable<StoredReply>,
  onVerdict: (line: JudgedReply) => void = () => {},
): Promise<JudgingResult> {
  const judged = nothingJudged();
  tally.quality.judged = judged;
  const harm = { asked: 0, new: 0 };
  if (judging.harm?.length) tally.quality.harm = harm;
  const answers = pairAnswers(judging);
  const judgeOne = async (stored: StoredReply): Promise<void> => {
    if (judging.signal?.aborted || judging.goOn?.() === false) throw JUDGING_STOPPED;
    const pair = pairOf(stored);
    if (!pair) return;
    try {
      const verdict = await answers.of(pair);
      judged[verdict.verdict]++;
      if (verdict.verdict === 'failed') {
        const code = verdict.error?.code ?? 'NO_VERDICT';
        judged.errors = { ...judged.errors, [code]: (judged.errors?.[code] ?? 0) + 1 };
      }
      const { key, event_id, request_id, captured_trace_id } = stored;
      onVerdict({ key, event_id, request_id, captured_trace_id, judge: judging.judge.sourceId, ...verdict });
      if (verdict.newHarm !== undefined) harm.asked++;
      if (verdict.newHarm) harm.new++;
      const found = [
        ...(verdict.newHarm ? (['new-harm'] as const) : []),
        ...(verdict.verdict === 'worse' ? (['judged-worse'] as const) : []),
      ];
      if (found.length > 0) tally.addJudged(stored, found, verdict.rationale);
    } catch (error) {
      if (!(error instanceof JudgeHeld)) throw judging.signal?.aborted ? JUDGING_STOPPED : error;
      judged.overBudget++;
    }
  };
  let failure: NamedError | undefined;
  try {
    // Pairs in progress are completed after a failure.
    await forEachConcurrently(CONCURRENT_PAIRS, replies, judgeOne);
    const { better, same, worse, undecided, failed } = judged;
    // A judge that was asked but gave no verdict on any pair does not work.
    if (failed > 0 && better + same + worse + undecided === 0) {
      const message = `not one of ${failed} pairs has a verdict: ${errorsText(judged)}`;
      failure = { name: 'NoVerdict', message };
    }
  } catch (error) {
    failure = error === JUDGING_STOPPED ? JUDGING_STOPPED : toNamedError(error);
  }
  return { judgeUsd: answers.usd(), ...(failure ? { judgeFailure: failure } : {}) };
}
