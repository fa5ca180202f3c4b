/**
 * Which of two replies is better, by the judge. Each pair is shown in both orders: models favour a place, and a verdict
 * that changes with the order is none.
 */

import type { Capture, ChatMessage } from '../../formats/types.ts';
import { answeredBefore, JudgeHeld } from '../../judge/errors.ts';
import type { Judge, JudgeMoney, JudgeScorer } from '../../judge/types.ts';
import { PipelineError, toNamedError } from '../../shared/errors.ts';
import type { Preference } from './quality.ts';

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

export interface ReplyPair {
  messages: ChatMessage[];
  before: ChatMessage;
  after: ChatMessage;
}

export interface PairVerdict {
  /** Of the new reply; `undecided`: the verdict changed with the order; `failed`: there was none. */
  verdict: Preference | 'undecided' | 'failed';
  /** Of each order, as the judge wrote them: the captured reply shown first, then the new one first. */
  rationales: string[];
  /** Why there is no verdict; with `failed` alone. */
  error?: VerdictError;
  usd: number | null;
}

interface VerdictError {
  code: string;
  message: string;
}

/** The pair as a record with two replies. */
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

export const addUsd = (a: number | null, b: number | null): number | null => (a === null || b === null ? null : a + b);

/** What one order came to; a judge that could not be asked may have cost something all the same. */
interface Asked {
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
): Promise<Asked> {
  const replies = swapped ? [pair.after, pair.before] : [pair.before, pair.after];
  try {
    const { verdicts, spend } = await judge.judge(recordOf(pair.messages, replies), [PAIRWISE_SCORER], signal, money);
    const verdict = verdicts[0];
    if (verdict?.outcome !== 'verdict') {
      const error = verdict?.error ?? { code: 'NO_VERDICT', message: 'The judge has said nothing of the pair' };
      return { rationale: `${error.code}: ${error.message}`, error, usd: spend.usd };
    }
    const newOne = swapped ? FIRST : SECOND;
    const preference: Preference = verdict.value === EQUAL ? 'same' : verdict.value === newOne ? 'better' : 'worse';
    return { preference, rationale: verdict.rationale, usd: spend.usd };
  } catch (error) {
    // The judge names its own failures; anything else came of what this pair holds.
    if (!(error instanceof PipelineError) && !signal?.aborted) {
      const own = unaskable(error);
      return { rationale: `${own.code}: ${own.message}`, error: own, usd: 0 };
    }
    return { rationale: '', usd: answeredBefore(error).spend.usd, failure: error };
  }
}

/** Of a pair that no question can be made of: whatever it holds, the others are judged. */
export const unaskable = (error: unknown): VerdictError => ({
  code: 'PAIR_UNUSABLE',
  message: toNamedError(error).name,
});

/** A pair that the judge could not be asked about, and what was spent on it until then. */
interface PairFailure {
  verdict?: never;
  failure: unknown;
  usd: number | null;
}

/**
 * A verdict on the new reply. Both orders must agree; one order that sees a difference where the other sees none is taken
 * as no difference.
 *
 * @returns the failure, by the judge's own error, where one of the orders could not be asked, `JudgeHeld` where there was no
 * money for it; nothing is thrown, so that what was paid is known
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
