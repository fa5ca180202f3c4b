/** Counts the tokens of a call as the provider's quota per minute does. */
import type { CallUsage } from '../types.ts';

/** Claude models from 3.7 on take five tokens of the quota for each token of an answer (Bedrock's page on token quotas). */
const FIVEFOLD = /\banthropic\.claude-(?:3-7-|[a-z]+-\d)/;

/** Returns how many tokens of the quota a token of the answer takes. @param model an id, or one with its scheme */
export const outputBurndown = (model: string): number => (FIVEFOLD.test(model) ? 5 : 1);

/** What is read from the prompt cache takes nothing. @param sourceId the judge's id, such as `bedrock:/anthropic.claude-…` */
export const quotaTokens = (sourceId: string, usage: CallUsage): number =>
  usage.inputTokens + (usage.cacheWriteInputTokens ?? 0) + usage.outputTokens * outputBurndown(sourceId);
