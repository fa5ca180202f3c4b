/**
 * Asks the judge which of two replies is better. Each pair is shown in both orders, because models favor a position: a
 * verdict that changes with the order does not count.
 */

import type { Capture, ChatMessage } from '../../captures/types.ts';
import { PipelineError, toNamedError } from '../../core/errors/errors.ts';
import { answeredBefore, JudgeHeld } from '../../judge/errors.ts';
import type { Judge, JudgeMoney, JudgeScorer } from '../../judge/types.ts';
import type { Preference } from './quality.ts';
import type { ReplyPair } from './replies-file.ts';

const FIRST = 'reply 1';
const SECOND = 'reply 2';
const EQUAL = 'equally good';

export const PAIRWISE_SCORER: JudgeScorer = {
  kind: 'judge',
  name: 'pairwise_preference',
  version: '1',
  question:
    'The record holds two replies, REPLY 1 and REPLY 2, given by two systems to the same request; here they are not alternatives of one system, and a fault in one is not held against the other. Which of them serves the user better? Weigh correctness first, then whether all that was asked is answered and every instruction of the request (format, length, language) is kept, then clarity. Neither the order, nor the length, nor the style by itself is a merit. Where they differ only in wording, or in ways that no user would mind, they are equally good.',
  values: { kind: 'categories', values: [FIRST, SECOND, EQUAL] },
  needs: ['request', 'reply'],
};

export interface PairVerdict {
  /** The verdict on the new reply. `undecided`: it changed with the order; `failed`: the judge gave no verdict. */
  verdict: Preference | 'undecided' | 'failed';
  /** The judge's rationale for each order: with the captured reply first, then with the new one first. */
  rationales: string[];
  /** Why there is no verdict; only with `failed`. */
  error?: VerdictError;
  usd: number | null;
}

interface VerdictError {
  code: string;
  message: string;
}

/** A record with both replies, as the judge reads it. */
function recordOf(messages: ChatMessage[], replies: ChatMessage[]): Capture {
  return {
    inferenceTimeMs: 0,
    timeSource: 'inferenceTime',
    format: 'chat',
    conversation: { messages, replies, parameters: {}, jsonRequested: false, finishReasons: [] },
    attributes: {},
    notes: [],
  };
}

/** The records of a pair as the judge would read them: one for each order. */
export const pairRecords = ({ messages, before, after }: ReplyPair): Capture[] => [
  recordOf(messages, [before, after]),
  recordOf(messages, [after, before]),
];

/** Adds two amounts, of which each may be unknown (`null`). */
export const addUsd = (a: number | null, b: number | null): number | null => (a === null || b === null ? null : a + b);

/** The answer for one order. A call that failed may have cost something too. */
interface OrderAnswer {
  preference?: Preference;
  rationale: string;
  error?: VerdictError;
  usd: number | null;
  failure?: unknown;
}

async function ask(
  judge: Judge,
  pair: ReplyPair,
  swapped: boolean,
  signal: AbortSignal | undefined,
  money: JudgeMoney,
): Promise<OrderAnswer> {
  const replies = swapped ? [pair.after, pair.before] : [pair.before, pair.after];
  try {
    const { verdicts, spend } = await judge.judge(recordOf(pair.messages, replies), [PAIRWISE_SCORER], signal, money);
    const verdict = verdicts[0];
    if (verdict?.outcome !== 'verdict') {
      const error = verdict?.error ?? { code: 'NO_VERDICT', message: 'The judge did not answer about the pair' };
      return { rationale: `${error.code}: ${error.message}`, error, usd: spend.usd };
    }
    const newOne = swapped ? FIRST : SECOND;
    const preference: Preference = verdict.value === EQUAL ? 'same' : verdict.value === newOne ? 'better' : 'worse';
    return { preference, rationale: verdict.rationale, usd: spend.usd };
  } catch (error) {
    // The judge's own failures are PipelineErrors. Any other error comes from the content of the pair.
    if (!(error instanceof PipelineError) && !signal?.aborted) {
      const own = unaskable(error);
      return { rationale: `${own.code}: ${own.message}`, error: own, usd: 0 };
    }
    return { rationale: '', usd: answeredBefore(error).spend.usd, failure: error };
  }
}

/** The error of a pair that no question can be made of. The other pairs are still judged. */
export const unaskable = (error: unknown): VerdictError => ({
  code: 'PAIR_UNUSABLE',
  message: toNamedError(error).name,
});

/** A pair for which a call to the judge failed, and the money spent on it. */
interface PairFailure {
  verdict?: never;
  failure: unknown;
  usd: number | null;
}

/**
 * Returns the verdict on the new reply. The two orders must agree. If only one of them sees a difference, the replies count
 * as the same.
 *
 * @returns the judge's error if a call failed, or `JudgeHeld` if the budget was used up. Nothing is thrown, so that the cost is known
 */
export async function judgePair(
  judge: Judge,
  pair: ReplyPair,
  signal?: AbortSignal,
  money: JudgeMoney = {},
): Promise<PairVerdict | PairFailure> {
  const [straight, swapped] = await Promise.all([
    ask(judge, pair, false, signal, money),
    ask(judge, pair, true, signal, money),
  ]);
  const rationales = [straight.rationale, swapped.rationale];
  const usd = addUsd(straight.usd, swapped.usd);
  const isHeld = straight.failure instanceof JudgeHeld;
  const failure = isHeld ? (swapped.failure ?? straight.failure) : (straight.failure ?? swapped.failure);
  if (failure !== undefined) return { failure, usd };
  const first = straight.preference;
  const second = swapped.preference;
  if (first === undefined || second === undefined) {
    const error = straight.error ?? swapped.error;
    return { verdict: 'failed', rationales, ...(error ? { error } : {}), usd };
  }
  if (first === second) return { verdict: first, rationales, usd };
  return { verdict: first === 'same' || second === 'same' ? 'same' : 'undecided', rationales, usd };
}
