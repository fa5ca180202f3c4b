/** Connects to the judge that compares replies, with the same settings as the pipeline. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { PermanentError, toNamedError } from '../../src/core/errors/errors.ts';
import { judgeOf } from '../../src/judge/connect.ts';
import { parseJudgeId } from '../../src/judge/judge-id.ts';
import { priceOptions, requireKnownPrice } from '../../src/judge/pricing/prices.ts';
import { OwnLimit } from '../../src/limits/spending-limit.ts';
import type { JudgeSettings } from '../../src/replay/compare/judge-replies.ts';
import { DEFAULT_JUDGE_BUDGET_USD } from '../../src/replay/options.ts';
import { commandSettings } from './settings.ts';

interface PairwiseFlags {
  /** Overrides BEDROCK_MODEL_ID. */
  judgeModel?: string | undefined;
  /** US dollars; 0 means no limit. */
  judgeBudgetUsd?: number | undefined;
}

/** @throws PermanentError `InvalidSettings`, `InvalidJudge`, `JudgePriceUnknown`, `JudgeCredentialsMissing` */
export async function connectPairwiseJudge(flags: PairwiseFlags): Promise<JudgeSettings> {
  const { judgeModel, judgeBudgetUsd: budgetUsd = DEFAULT_JUDGE_BUDGET_USD } = flags;
  const settings = commandSettings({ BEDROCK_MODEL_ID: judgeModel });
  const budget = budgetUsd === 0 ? undefined : budgetUsd;
  requireKnownPrice(settings.BEDROCK_MODEL_ID, budget, priceOptions(settings));
  await requireCredentials(settings.BEDROCK_MODEL_ID);
  const limit = budget === undefined ? {} : { limit: new OwnLimit(budget) };
  return { judge: judgeOf(settings), ...limit };
}

/** Fails before anything is sent, rather than when the first pair is judged. */
async function requireCredentials(model: string): Promise<void> {
  if (parseJudgeId(model).scheme === 'openai' || process.env.AWS_BEARER_TOKEN_BEDROCK) return;
  try {
    await defaultProvider()();
  } catch (error) {
    const facts = { got: toNamedError(error).name, expected: 'AWS credentials, or another judge (--judge-model)' };
    throw new PermanentError('JudgeCredentialsMissing', 'There are no AWS credentials for the judge', facts, error);
  }
}
