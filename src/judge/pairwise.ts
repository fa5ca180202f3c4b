/**
 * Asks which of two replies to a request is better: the captured reply or the replay's reply. Shows each pair in both
 * orders, because models favor a position: a verdict that changes with the order does not count.
 */

import type { Capture, ChatMessage } from '../captures/types.ts';
import { chatCapture } from './chat-capture.ts';
import { afterAnswers, answeredBefore, JudgeHeld, VERDICT_ERRORS } from './errors.ts';
import pairwiseScorer from './pairwise-scorer.json' with { type: 'json' };
import { emptySpend, spentTogether, sumUsage } from './spend.ts';
import type { Judge, JudgeMoney, JudgeResult, JudgeScorer, Verdict } from './types.ts';

/** A request and two replies to it. */
export interface ReplyPair {
  messages: readonly ChatMessage[];
  before: ChatMessage;
  after: ChatMessage;
}

export type Preference = 'better' | 'same' | 'worse';

/**
 * The verdict is on the new reply. `undecided`: it changed with the order. It needs the captured reply alone: the caller has checked
 * that the two can be compared.
 */
export const PAIRWISE_SCORER = pairwiseScorer as JudgeScorer;

const FIRST = 'reply 1';
const SECOND = 'reply 2';
const EQUAL = 'equally good';

/**
 * The position of the new reply in each order, and the names in its answer. The judge speaks of "reply 1" and "reply
 * 2".
 */
const ORDERS = [
  { newIsFirst: false, text: 'Reply 1 captured, reply 2 new' },
  { newIsFirst: true, text: 'Reply 1 new, reply 2 captured' },
] as const;
type Order = (typeof ORDERS)[number];

/** The scorer as one order is asked. */
export const ORDER_SCORER: JudgeScorer = {
  ...PAIRWISE_SCORER,
  values: { kind: 'categories', values: [FIRST, SECOND, EQUAL] },
};

/** Returns the name under which the answer to one order is kept until the answer to the other order is known. */
const nameOf = ({ text }: Order): string => `${PAIRWISE_SCORER.name} ${PAIRWISE_SCORER.version}: ${text}`;

/** A record with both replies, as the judge reads it. */
const recordOf = ({ messages, before, after }: ReplyPair, { newIsFirst }: Order): Capture =>
  chatCapture(messages, newIsFirst ? [after, before] : [before, after]);

/** The records of a pair, one for each order. */
export const pairRecords = (pair: ReplyPair): Capture[] => ORDERS.map((order) => recordOf(pair, order));

/**
 * Returns the verdict on the new reply. The two orders must agree. If the judge sees a difference in only one order,
 * the replies count as the same.
 *
 * @param known answers to one order from an earlier call, which failed at the other order. They are already paid for
 * @throws the judge's error, with the answer to the other order if it is known
 *
 * @example
 *     const { verdicts } = await judgePair(judge, { messages, before: oldReply, after: newReply });
 */
export async function judgePair(
  judge: Judge,
  pair: ReplyPair,
  signal?: AbortSignal,
  { limit, known = [] }: JudgeMoney = {},
): Promise<JudgeResult> {
  const ask = async (order: Order): Promise<JudgeResult> => {
    const name = nameOf(order);
    const before = known.find(({ scorer, outcome }) => scorer === name && outcome === 'verdict');
    if (before !== undefined) return { verdicts: [before], spend: emptySpend() };
    const { verdicts, spend } = await judge.judge(recordOf(pair, order), [ORDER_SCORER], signal, { limit });
    return { verdicts: verdicts.map((verdict) => ({ ...verdict, scorer: name })), spend };
  };
  const settled = await Promise.allSettled(ORDERS.map(ask));
  const results = settled.map((one) => (one.status === 'fulfilled' ? one.value : answeredBefore(one.reason)));
  const spend = spentTogether(results.map((result) => result.spend));
  const failures = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
  // A failure that a retry can fix takes precedence over a question that is held.
  const failure = failures.find((reason) => !(reason instanceof JudgeHeld)) ?? failures[0];
  const verdicts = results.flatMap((result) => result.verdicts);
  if (failure !== undefined) throw afterAnswers(failure, { verdicts, spend });
  const verdict = together(verdicts);
  // A later attempt asks for the other order alone.
  const kept = verdict.outcome === 'error' ? verdicts.filter(({ outcome }) => outcome === 'verdict') : [];
  return { verdicts: [verdict, ...kept], spend };
}

/** @param verdicts of both orders */
function together(verdicts: readonly Verdict[]): Verdict {
  const shared = { scorer: PAIRWISE_SCORER.name, usage: verdicts.map(({ usage }) => usage).reduce(sumUsage) };
  const given = verdicts.filter((verdict) => verdict.outcome === 'verdict');
  const failed = verdicts.find((verdict) => verdict.outcome === 'error');
  if (given.length < ORDERS.length) {
    const missing = { code: VERDICT_ERRORS.missing, message: 'The judge did not answer about the pair' };
    return { ...shared, outcome: 'error', error: failed?.error ?? missing };
  }
  const [first, second] = ORDERS.map(({ newIsFirst }, index): Preference => {
    const value = given[index]?.value;
    if (value === EQUAL) return 'same';
    return value === (newIsFirst ? FIRST : SECOND) ? 'better' : 'worse';
  });
  const rationales = ORDERS.map(({ text }, index) => `${text}: ${given[index]?.rationale}`);
  const isAgreed = first !== undefined && first === second;
  const value = isAgreed ? first : first === 'same' || second === 'same' ? 'same' : 'undecided';
  return { ...shared, outcome: 'verdict', value, rationale: rationales.join('\n\n') };
}

/**
 * Returns a judge of pairs.
 *
 * @param pairOf returns the pair of an exchange, or an error. The error concerns only this exchange and becomes its
 *   verdict.
 */
export const pairwiseJudge = (
  judge: Judge,
  pairOf: (
    exchange: Capture,
    signal?: AbortSignal,
  ) => Promise<ReplyPair | { error: { code: string; message: string } }>,
): Judge => ({
  sourceId: judge.sourceId,
  maxCostUsd: (capture, scorers) => {
    const usd = judge.maxCostUsd(capture, scorers);
    return usd === null ? null : ORDERS.length * usd;
  },
  judge: async (capture, _scorers, signal, money) => {
    const pair = await pairOf(capture, signal);
    if (!('error' in pair)) return judgePair(judge, pair, signal, money);
    const usage = { inputTokens: 0, outputTokens: 0, usd: 0 };
    return { verdicts: [{ scorer: PAIRWISE_SCORER.name, usage, outcome: 'error', ...pair }], spend: emptySpend() };
  },
});
