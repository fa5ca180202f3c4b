/** The judge, the scorers, the rules and the budget of this stack, made once per cold start. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Capture } from '../formats/types.ts';
import type { LambdaEnvironment } from '../settings/environment.ts';
import type { sharedSettings } from '../settings/schema.ts';
import { type BatchRecord, batchRecord } from './batch/record.ts';
import { type Budget, createBudget } from './budget/leased-budget.ts';
import { assertBatchPossible, createJudge, parseJudgeId } from './create-judge.ts';
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

/** Returns a function that connects to the judge at its first call, and returns the same judge from then on. */
export function connectJudge(environment: LambdaEnvironment): () => Promise<Judging> {
  const scorers = scorersFor({ guidelines: environment.JUDGE_GUIDELINES });
  const always = createAlwaysRule(environment.EVALUATION_ALWAYS, scorers.filter(isCodeScorer));
  const make = async (): Promise<Judging> => ({ judge: await judgeOf(environment), scorers, always });
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

interface JudgeSettings extends Pick<LambdaEnvironment, keyof typeof sharedSettings> {
  /** The key itself, on a person's own machine. */
  JUDGE_API_KEY?: string;
}

/**
 * The judge of these settings, asked online. The key of a judge outside AWS is read from Secrets Manager now, and again
 * when the judge stops accepting it.
 */
export async function judgeOf(settings: JudgeSettings): Promise<Judge> {
  const prices = priceOptions(settings);
  return createJudge({
    model: settings.BEDROCK_MODEL_ID,
    parameters: settings.MLFLOW_EVALUATION_MODEL_PARAM,
    calls: settings.JUDGE_CALLS,
    priceCall: (model, usage) => priceCall(model, usage, prices),
    baseUrl: settings.JUDGE_BASE_URL,
    apiKey: settings.JUDGE_API_KEY ?? (await keyLoader(settings.JUDGE_SECRET_ARN)),
    guardrail: guardrailOf(settings),
  });
}

/** Reads the key at once, so that an unreadable secret fails under its own name. The first call returns that key. */
async function keyLoader(secretArn: string | undefined): Promise<(() => Promise<string>) | undefined> {
  if (secretArn === undefined) return undefined;
  let first: string | undefined = await loadApiKey(undefined, secretArn);
  return async () => {
    const key = first ?? (await loadApiKey(undefined, secretArn));
    first = undefined;
    return key;
  };
}

const guardrailOf = ({ BEDROCK_GUARDRAIL_ID: id, BEDROCK_GUARDRAIL_VERSION: version = 'DRAFT' }: JudgeSettings) =>
  id === undefined ? undefined : { id, version };

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
  const online = priceOptions(environment);
  const batch = priceOptions(environment, 'batch');
  const { transport, options } = bedrockParts({
    modelId: name,
    parameters: environment.MLFLOW_EVALUATION_MODEL_PARAM,
    price: (usage) => priceCall(name, usage, usage.batch ? batch : online),
    guardrail: guardrailOf(environment),
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
