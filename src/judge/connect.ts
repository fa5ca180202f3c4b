/** Creates the judge, the scorers, the always rules and the budget from the settings of the stack. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Capture } from '../formats/types.ts';
import type { LambdaEnvironment } from '../settings/environment.ts';
import type { sharedSettings } from '../settings/schema.ts';
import { type BatchRecord, batchRecord } from './batch/record.ts';
import { type Budget, createBudget } from './budget/leased-budget.ts';
import { createJudge, type JudgeConfig } from './create-judge.ts';
import { createJudgeOver } from './judge-capture.ts';
import { assertBatchPossible, parseJudgeId } from './judge-id.ts';
import type { ModelAnswer } from './model-answer.ts';
import { priceCall, priceOptions } from './pricing/prices.ts';
import { createAlwaysRule } from './scorers/always-rules.ts';
import { isCodeScorer, scorersFor } from './scorers/scorer-set.ts';
import { loadApiKey } from './transports/api-key.ts';
import { bedrockTransport } from './transports/bedrock.ts';
import { answerBounds, readParameters } from './transports/parameters.ts';
import type { Judge, JudgeScorer, Scorer } from './types.ts';

interface Judging {
  judge: Judge;
  scorers: readonly Scorer[];
  always: ReturnType<typeof createAlwaysRule>;
}

/**
 * Returns a function that connects to the judge at its first call, and returns the same judge from then on.
 */
export function connectJudge(environment: LambdaEnvironment): () => Promise<Judging> {
  const scorers = scorersFor({ guidelines: environment.JUDGE_GUIDELINES });
  const always = createAlwaysRule(environment.EVALUATION_ALWAYS, scorers.filter(isCodeScorer));
  const create = async (): Promise<Judging> => ({ judge: await judgeOf(environment), scorers, always });
  let judging: Promise<Judging> | undefined;
  return () => {
    judging ??= create().catch((error: unknown) => {
      // A secret that cannot be read now may be readable in the next invocation.
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
 * Creates the judge of these settings, for online calls. The key of a judge outside AWS is read from Secrets Manager now, and
 * again when the server stops accepting it.
 */
export async function judgeOf(settings: JudgeSettings): Promise<Judge> {
  const prices = priceOptions(settings);
  return createJudge({
    model: settings.BEDROCK_MODEL_ID,
    parameters: settings.MLFLOW_EVALUATION_MODEL_PARAM,
    calls: settings.JUDGE_CALLS,
    price: (usage) => priceCall(settings.BEDROCK_MODEL_ID, usage, prices),
    baseUrl: settings.JUDGE_BASE_URL,
    apiKey: settings.JUDGE_API_KEY ?? (await keyLoader(settings.JUDGE_SECRET_ARN)),
    guardrail: guardrailOf(settings),
  });
}

/** Reads the key now, so that an unreadable secret fails with its own error name. The first call returns that key. */
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

/** The parts of the judge that batch inference needs. Only Bedrock supports it. */
export interface BatchJudging {
  record(traceId: string, capture: Capture, scorers: readonly JudgeScorer[]): BatchRecord;
  maxCostUsd(capture: Capture, scorers: readonly JudgeScorer[]): number | null;
  /** Returns the cost of a batch job's answer in US dollars; `null` if the price is unknown. */
  priceOf(answer: ModelAnswer): number | null;
  /** Reads a job's answers, and asks online where they are not enough. */
  judge: Judge;
}

/** @throws PermanentError `InvalidJudge` when the judge is not on Bedrock */
export function connectBatchJudge(environment: LambdaEnvironment): BatchJudging {
  assertBatchPossible(environment.BEDROCK_MODEL_ID);
  const { name } = parseJudgeId(environment.BEDROCK_MODEL_ID);
  const online = priceOptions(environment);
  const batch = priceOptions(environment, 'batch');
  const parameters = readParameters(environment.MLFLOW_EVALUATION_MODEL_PARAM);
  const transport = bedrockTransport(name, parameters, guardrailOf(environment));
  const bounds = answerBounds(parameters);
  const judgeAt = (price: JudgeConfig['price']): Judge => createJudgeOver(transport, { ...bounds, price });
  const pricedAsBatch = judgeAt((usage) => priceCall(name, usage, batch));
  return {
    record: (traceId, capture, scorers) => batchRecord(transport, traceId, capture, scorers, bounds),
    maxCostUsd: (capture, scorers) => pricedAsBatch.maxCostUsd(capture, scorers),
    priceOf: ({ usage }) => priceCall(name, usage, batch),
    judge: judgeAt((usage) => priceCall(name, usage, usage.batch ? batch : online)),
  };
}

/** Returns a function that creates the budget of one chunk; `undefined` if neither a daily nor a run budget is set. */
export function connectBudget(environment: LambdaEnvironment): (run: string, runUsd?: number) => Budget | undefined {
  const { BUDGET_TABLE: table, EVALUATION_BUDGET_USD: dailyUsd } = environment;
  const client = new DynamoDBClient({});
  return (run, runUsd) => {
    if (table === undefined || (dailyUsd === 0 && runUsd === undefined)) return undefined;
    return createBudget({ client, table, dailyUsd, runUsd, run });
  };
}
