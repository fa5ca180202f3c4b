/** Estimates the judge's cost for a comparison, without calling the judge. */

import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { chatCapture } from '../../judge/chat-capture.ts';
import { ORDER_SCORER, pairRecords, type ReplyPair } from '../../judge/pairwise.ts';
import { answerBounds, readParameters } from '../../judge/parameters.ts';
import { PRICE_SOURCE, priceCall, priceOptions, propertiesIn, ratesOf } from '../../judge/pricing/prices.ts';
import { type AskSize, askSize } from '../../judge/pricing/request-tokens.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import { replyMessageOf, type StoredReply } from '../compare/replies-file.ts';

type Settings = Pick<LambdaEnvironment, 'BEDROCK_MODEL_ID' | 'MLFLOW_EVALUATION_MODEL_PARAM'> &
  Partial<Pick<LambdaEnvironment, 'JUDGE_PRICES'>>;

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
  const properties = propertiesIn(model, settings.JUDGE_PRICES);
  const bounds = { ...answerBounds(readParameters(settings.MLFLOW_EVALUATION_MODEL_PARAM)), properties };
  const sizes = pairs.flatMap((pair) => [
    ...pairRecords(pair).map((record) => askSize(record, [ORDER_SCORER], bounds)),
    ...(harm.length > 0 ? [askSize(chatCapture(pair.messages, [pair.after]), harm, bounds)] : []),
  ]);
  const mean = (pick: (size: AskSize) => number): number =>
    sizes.reduce((sum, size) => sum + pick(size), 0) / Math.max(1, pairs.length);
  const usage = { inputTokens: mean((size) => size.inputTokens), outputTokens: mean((size) => size.outputTokens) };
  const prices = priceOptions(settings);
  const rates = ratesOf(model, prices);
  const usdPerPair = priceCall(model, usage, prices);
  const tokens = `${Math.round(usage.inputTokens)} and ${Math.round(usage.outputTokens)} tokens per pair, in both orders${harm.length > 0 ? ' and about harm' : ''} (as ${pairs.length} replies)`;
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
