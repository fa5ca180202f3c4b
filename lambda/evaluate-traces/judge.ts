/** The judge, the scorers, the rules and the budget of this stack, made once per cold start. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import type { LambdaEnvironment } from '../common/environment.ts';
import { createAlwaysRule } from '../judge/always-rules.ts';
import { loadApiKey } from '../judge/api-key.ts';
import { type Budget, createBudget } from '../judge/budget.ts';
import { createJudge } from '../judge/create-judge.ts';
import { priceOptions } from '../judge/estimate.ts';
import { priceCall } from '../judge/prices.ts';
import { isCodeScorer, scorersFor } from '../judge/scorers.ts';
import type { Judge, Scorer } from '../judge/types.ts';

export interface Judging {
  judge: Judge;
  scorers: readonly Scorer[];
  always: ReturnType<typeof createAlwaysRule>;
}

/** @returns a function that gives the judge; the key of a judge outside AWS is read from Secrets Manager once. */
export function connectJudge(environment: LambdaEnvironment): () => Promise<Judging> {
  const scorers = scorersFor({ guidelines: environment.JUDGE_GUIDELINES });
  const always = createAlwaysRule(environment.EVALUATION_ALWAYS, scorers.filter(isCodeScorer));
  const prices = priceOptions(environment, 'converse');
  const make = async (): Promise<Judging> => {
    const { JUDGE_SECRET_ARN: secret, BEDROCK_GUARDRAIL_ID: identifier } = environment;
    const apiKey = secret === undefined ? undefined : await loadApiKey(new SecretsManagerClient({}), secret);
    const judge = createJudge({
      model: environment.BEDROCK_MODEL_ID,
      parameters: environment.MLFLOW_EVALUATION_MODEL_PARAM,
      calls: environment.JUDGE_CALLS,
      priceCall: (model, usage) => priceCall(model, usage, prices),
      baseUrl: environment.JUDGE_BASE_URL,
      apiKey,
      ...(identifier === undefined
        ? {}
        : { guardrail: { id: identifier, version: environment.BEDROCK_GUARDRAIL_VERSION ?? 'DRAFT' } }),
    });
    return { judge, scorers, always };
  };
  let judging: Promise<Judging> | undefined;
  return () => {
    judging ??= make().catch((error: unknown) => {
      // A secret that cannot be read now may be readable for the next invocation.
      judging = undefined;
      throw error;
    });
    return judging;
  };
}

/** Makes the budget of one chunk; `undefined` when neither a daily nor a run's budget is set. */
export function connectBudget(environment: LambdaEnvironment): (run: string, runUsd?: number) => Budget | undefined {
  const { BUDGET_TABLE: table, EVALUATION_BUDGET_USD: dailyUsd } = environment;
  const client = new DynamoDBClient({});
  return (run, runUsd) => {
    if (table === undefined || (dailyUsd === 0 && runUsd === undefined)) return undefined;
    return createBudget({ client, table, dailyUsd, runUsd, run });
  };
}
