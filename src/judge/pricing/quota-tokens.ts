/** Counts the tokens of a call as the provider's quota per minute does. */

import { propertiesOf } from '../models/model-properties.ts';
import type { CallUsage } from '../types.ts';

/** Returns how many tokens of the quota a token of the answer takes; 1 for a model of which nothing is known. */
export const outputBurndown = (model: string): number => propertiesOf(model)?.outputBurndown ?? 1;

/** What is read from the prompt cache takes nothing. @param sourceId the judge's id, such as `bedrock:/anthropic.claude-…` */
export const quotaTokens = (sourceId: string, usage: CallUsage): number =>
  usage.inputTokens + (usage.cacheWriteInputTokens ?? 0) + usage.outputTokens * outputBurndown(sourceId);
