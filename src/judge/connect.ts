/** The judge, the scorers, the rules and the budget of this stack, made once per cold start. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Capture } from '../formats/types.ts';
import type { LambdaEnvironment, sharedSettings } from '../settings/environment.ts';
import { type BatchRecord, batchRecord } from './batch/record.ts';
import { type Budget, createBudget } from './budget/leased-budget.ts';
import { assertBatchPossible, createJudge, type JudgeConfig, parseJudgeId } from './create-judge.ts';
import { createJudgeOver } from './judge-capture.ts';
import type { ModelAnswer } from './model-answer.ts';
import { priceOptions } from './pricing/estimate.ts';
import { priceCall } from './pricing/prices.ts';
import { createAlwaysRule } from './scorers/always-rules.ts';
import { isCodeScorer, scorersFor } from './scorers/scorer-set.ts';
import { loadApiKey } from './transports/api-key.ts';
import { bedrockParts } from './transports/bedrock.ts';
import type { Judge, JudgeScorer, Scorer } from './types.ts';

interface Judging {
  judge: Judge;
  scorers: readonly Scorer[];
  always: ReturnType<typeof createAlwaysRule>;
}

/**
 * @returns a function that gives the judge. The key of a judge outside AWS is read from Secrets Manager when it is made,
 *   and again when it stops being accepted.
 */
export function connectJudge(environment: LambdaEnvironment): () => Promise<Judging> {
  const scorers = scorersFor({ guidelines: environment.JUDGE_GUIDELINES });
  const always = createAlwaysRule(environment.EVALUATION_ALWAYS, scorers.filter(isCodeScorer));
  const make = async (): Promise<Judging> => {
    const { JUDGE_SECRET_ARN: secret } = environment;
    // Read now, so that what is wrong with it fails by its own name; the judge begins with what was read.
    let first = secret === undefined ? undefined : await loadApiKey(undefined, secret);
    const loadKey = async (): Promise<string> => {
      const key = first ?? (await loadApiKey(undefined, secret ?? ''));
      first = undefined;
      return key;
    };
    return { judge: judgeOf(environment, secret === undefined ? undefined : loadKey), scorers, always };
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

/** The judge of these settings, asked online. */
export function judgeOf(
  settings: Pick<LambdaEnvironment, keyof typeof sharedSettings | 'BEDROCK_MODEL_ID'>,
  apiKey: JudgeConfig['apiKey'],
): Judge {
  const prices = priceOptions(settings);
  const { BEDROCK_GUARDRAIL_ID: id, BEDROCK_GUARDRAIL_VERSION: version } = settings;
  return createJudge({
    model: settings.BEDROCK_MODEL_ID,
    parameters: settings.MLFLOW_EVALUATION_MODEL_PARAM,
    calls: settings.JUDGE_CALLS,
    priceCall: (model, usage) => priceCall(model, usage, prices),
    baseUrl: settings.JUDGE_BASE_URL,
    apiKey,
    guardrail: id === undefined ? undefined : { id, version },
  });
}

/** What the two phases of batch inference need of the judge. Only a judge on Bedrock has it. */
export interface BatchJudging {
  record(traceId: string, capture: Capture, scorers: readonly JudgeScorer[]): BatchRecord;
  maxCostUsd(capture: Capture, scorers: readonly JudgeScorer[]): number | null;
  /** US dollars of a batch job's answer; `null` when the price is not known. */
  priceOf(answer: ModelAnswer): number | null;
  /** The judge that reads a job's answers, and asks where they are not enough. */
  judge: Judge;
}

/** @throws PermanentError `InvalidJudge` when the judge is not on Bedrock */
export function connectBatchJudge(environment: LambdaEnvironment): BatchJudging {
  assertBatchPossible(environment.BEDROCK_MODEL_ID);
  const { name } = parseJudgeId(environment.BEDROCK_MODEL_ID);
  const { BEDROCK_GUARDRAIL_ID: id, BEDROCK_GUARDRAIL_VERSION: version } = environment;
  const online = priceOptions(environment);
  const batch = priceOptions(environment, 'batch');
  const { transport, options } = bedrockParts({
    modelId: name,
    parameters: environment.MLFLOW_EVALUATION_MODEL_PARAM,
    price: (usage) => priceCall(name, usage, usage.batch ? batch : online),
    ...(id === undefined ? {} : { guardrail: { id, version } }),
  });
  const pricedAsBatch = createJudgeOver(transport, { ...options, price: (usage) => priceCall(name, usage, batch) });
  const { maxTokens, thinkingTokens } = options;
  return {
    record: (traceId, capture, scorers) =>
      batchRecord(transport, traceId, capture, scorers, { maxTokens, thinkingTokens }),
    maxCostUsd: (capture, scorers) => pricedAsBatch.maxCostUsd(capture, scorers),
    priceOf: ({ usage }) => priceCall(name, usage, batch),
    judge: createJudgeOver(transport, options),
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
