/** Estimates the judge's cost for a comparison, without calling the judge. */

import type { Capture } from '../../captures/types.ts';
import type { JudgeSpend } from '../../core/contract/receipts.ts';
import { chatCapture } from '../../judge/chat-capture.ts';
import { ORDER_SCORER, pairRecords, type ReplyPair } from '../../judge/pairwise.ts';
import { expectedCalls } from '../../judge/pricing/estimate.ts';
import { PRICE_SOURCE, priceOptions, ratesOf } from '../../judge/pricing/prices.ts';
import { addSpend, emptySpend } from '../../judge/spend.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import { replyMessageOf, type StoredReply } from '../compare/replies-file.ts';

type Settings = Parameters<typeof expectedCalls>[0];

export type JudgeCost = ReturnType<typeof judgeCost>;

/** Returns the pair that a stored reply would belong to: with the captured reply, or else a reply of the same size. */
export function pairToSize({ messages, captured, reply }: StoredReply): ReplyPair | undefined {
  const after = replyMessageOf(reply);
  if (!messages || !after) return undefined;
  return { messages, before: (captured && replyMessageOf(captured)) ?? after, after };
}

/**
 * @param asked number of differing pairs, about which the judge would be asked
 * @param pairs examples for the sizes
 * @param harm questions about harm in the new replies
 */
export function judgeCost(
  settings: Settings,
  asked: number,
  pairs: readonly ReplyPair[],
  harm: readonly JudgeScorer[],
) {
  const model = settings.BEDROCK_MODEL_ID;
  const total = emptySpend();
  // The judge of pairs has no cascade.
  const add = (capture: Capture, scorers: readonly JudgeScorer[]): JudgeSpend =>
    addSpend(total, expectedCalls({ ...settings, JUDGE_CASCADE: undefined }, capture, scorers));
  for (const pair of pairs) {
    for (const record of pairRecords(pair)) add(record, [ORDER_SCORER]);
    if (harm.length > 0) add(chatCapture(pair.messages, [pair.after]), harm);
  }
  const perPair = (sum: number): number => sum / Math.max(1, pairs.length);
  const rates = ratesOf(model, priceOptions(settings));
  const usdPerPair = rates === null || total.usd === null ? null : perPair(total.usd);
  const tokens = `${Math.round(perPair(total.inputTokens))} and ${Math.round(perPair(total.outputTokens))} tokens per pair, in both orders${harm.length > 0 ? ' and about harm' : ''} (as ${pairs.length} replies)`;
  const price = rates
    ? `${rates.input} and ${rates.output} US dollars per million (${PRICE_SOURCE})`
    : 'the price is unknown';
  return {
    /** Pairs that the judge would be asked about. */
    pairs: asked,
    /** US dollars; `null`: the price is unknown. */
    usdPerPair,
    usd: usdPerPair === null ? null : asked * usdPerPair,
    model,
    /** The sources of the sizes and the price. */
    basis: `${tokens}; ${price}`,
  };
}
