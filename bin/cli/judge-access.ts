/** Checks whether a judge can be called from here. */
import { BedrockRuntimeClient } from '@aws-sdk/client-bedrock-runtime';
import { judgeModels, parseJudgeId } from '../../src/judge/judge-id.ts';
import { priceOptions, requireKnownPrice } from '../../src/judge/pricing/prices.ts';
import type { CommandSettings } from './settings.ts';

/**
 * Fails before any request is sent or paid, rather than at the first question.
 *
 * @param budgetUsd 0: no limit
 * @throws PermanentError `InvalidJudge`, `JudgePriceUnknown`; the SDK's errors of a missing region and missing
 *   credentials
 */
export async function requireJudge(settings: CommandSettings, budgetUsd: number, models = judgeModels(settings)) {
  for (const model of models) requireKnownPrice(model, budgetUsd, priceOptions(settings), '--budget 0');
  if (models.every((model) => parseJudgeId(model).scheme === 'openai')) return;
  const { config } = new BedrockRuntimeClient({});
  await config.region();
  if (!process.env.AWS_BEARER_TOKEN_BEDROCK) await config.credentials();
}
