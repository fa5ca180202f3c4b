/** The tokens and the cost of a call, divided among its scorers so that the parts sum exactly to the whole. */

import { outputBurndown } from '../models/model-properties.ts';
import { UNITS_PER_USD } from '../spend.ts';
import type { CallUsage, VerdictUsage } from '../types.ts';

/** Returns the cost of a call in US dollars; `null` if the model's price is unknown. */
export type PriceOfCall = (usage: CallUsage) => number | null;

/** Returns a call's use of the prompt cache, if it asked for caching. */
export const cacheUseOf = ({ asksForCache, cacheReadInputTokens, cacheWriteInputTokens }: CallUsage) =>
  asksForCache
    ? { cacheCalls: 1, cacheReadTokens: cacheReadInputTokens ?? 0, cacheWriteTokens: cacheWriteInputTokens ?? 0 }
    : {};

const toUnits = (usd: number | null): number | null => (usd === null ? null : Math.round(usd * UNITS_PER_USD));

/** All input tokens, cached or not. MLflow's own judges report this number as input tokens. */
export const allInputTokens = (usage: CallUsage): number =>
  usage.inputTokens + (usage.cacheReadInputTokens ?? 0) + (usage.cacheWriteInputTokens ?? 0);

/**
 * Returns the tokens of a call as the provider's quota per minute counts them. Tokens read from the prompt cache use no quota.
 * @param sourceId the judge's id, such as `bedrock:/anthropic.claude-…`
 */
export const quotaTokens = (sourceId: string, usage: CallUsage): number =>
  usage.inputTokens + (usage.cacheWriteInputTokens ?? 0) + usage.outputTokens * outputBurndown(sourceId);

/** A reported count above this multiple of the worst case is ignored. */
const ABSURD_TIMES = 10;

/**
 * Returns the usage that is charged for a call: the reported one, or the worst case if the report is impossible (fractions,
 * negative counts, more cached tokens than input tokens, an empty prompt, absurdly high counts). Thus no report can exhaust
 * a budget.
 */
export function believed(usage: CallUsage, worstCase: CallUsage): CallUsage {
  const { inputTokens, outputTokens, cacheReadInputTokens = 0, cacheWriteInputTokens = 0 } = usage;
  const counts = [inputTokens, outputTokens, cacheReadInputTokens, cacheWriteInputTokens];
  const input = allInputTokens(usage);
  const isPossible =
    counts.every((count) => Number.isSafeInteger(count) && count >= 0) &&
    input > 0 &&
    input <= ABSURD_TIMES * worstCase.inputTokens &&
    outputTokens <= ABSURD_TIMES * worstCase.outputTokens;
  return isPossible ? usage : { ...worstCase, batch: usage.batch };
}

/** Divides a whole number by weights. The rest from rounding goes to the largest remainders, so the parts sum to the total. */
function divideWhole(total: number, weights: readonly number[]): number[] {
  const sum = weights.reduce((a, b) => a + b, 0);
  const exact = weights.map((weight) => (total * weight) / sum);
  const parts = exact.map(Math.floor);
  const rest = Math.max(0, total - parts.reduce((a, b) => a + b, 0));
  const byRemainder = exact
    .map((value, index) => ({ index, rest: value - Math.floor(value) }))
    .sort((a, b) => b.rest - a.rest || a.index - b.index);
  for (const { index } of byRemainder.slice(0, rest)) parts[index] = (parts[index] ?? 0) + 1;
  return parts;
}

const NO_INPUT = { inputTokens: 0, cacheReadInputTokens: 0, cacheWriteInputTokens: 0 };

/**
 * Divides a call's tokens and cost among its scorers. Input is divided in equal parts, because all scorers share the
 * exchange; output is divided by the length of each answer.
 * @param answerChars characters of each scorer's answer, 0 without an answer
 */
export function divideCall(usage: CallUsage, price: PriceOfCall, answerChars: readonly number[]): VerdictUsage[] {
  const equal = answerChars.map(() => 1);
  const byLength = answerChars.some((chars) => chars > 0) ? answerChars : equal;
  const input = divideWhole(allInputTokens(usage), equal);
  const output = divideWhole(usage.outputTokens, byLength);
  const total = toUnits(price(usage));
  const ofOutput = toUnits(price({ ...usage, ...NO_INPUT }));
  const money =
    total === null || ofOutput === null
      ? undefined
      : {
          input: divideWhole(Math.max(0, total - ofOutput), equal),
          output: divideWhole(Math.min(total, ofOutput), byLength),
        };
  return answerChars.map((_, index) => ({
    inputTokens: input[index] ?? 0,
    outputTokens: output[index] ?? 0,
    usd: money === undefined ? null : ((money.input[index] ?? 0) + (money.output[index] ?? 0)) / UNITS_PER_USD,
  }));
}
