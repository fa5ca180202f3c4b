/** Counts the tokens of a call as the provider's quota per minute does. */

import { propertiesOf } from '../models/model-properties.ts';
import type { CallUsage } from '../types.ts';

/** Returns how many tokens of the quota one token of the answer uses. Returns 1 for an unknown model. */
export const outputBurndown = (model: string): number => propertiesOf(model)?.outputBurndown ?? 1;

/**
 * Returns the quota tokens of a call. Tokens read from the prompt cache use no quota. @param sourceId the judge's id,
 * such as `bedrock:/anthropic.claude-…`
 */
export const quotaTokens = (sourceId: string, usage: CallUsage): number =>
  usage.inputTokens + (usage.cacheWriteInputTokens ?? 0) + usage.outputTokens * outputBurndown(sourceId);
