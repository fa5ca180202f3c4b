/** Counts the tokens of a call as the provider's quota per minute does. */
import type { CallUsage } from '../model-answer.ts';

/**
 * Claude 3.7 and later on Bedrock: an output token takes five of the quota. Reading from the prompt cache takes none.
 * https://docs.aws.amazon.com/bedrock/latest/userguide/quotas-token-burndown.html
 */
const FIVEFOLD = /^bedrock:.*claude-(?:3-7|(?:opus|sonnet|haiku)-[4-9])/;

/** @param sourceId the judge's id, such as `bedrock:/anthropic.claude-…` */
export function quotaTokens(sourceId: string, usage: CallUsage): number {
  const { inputTokens, outputTokens, cacheWriteInputTokens = 0 } = usage;
  return inputTokens + cacheWriteInputTokens + outputTokens * (FIVEFOLD.test(sourceId) ? 5 : 1);
}
