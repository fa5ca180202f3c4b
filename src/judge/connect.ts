/** Creates the judge, the scorers, the always rules and the budget from the settings of the stack. */
import type { Capture } from '../captures/types.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import type { sharedSettings } from '../core/settings/schema.ts';
import { Budget } from '../limits/budget.ts';
import type { Limits } from '../limits/limits.ts';
import { limitsTable } from '../limits/table.ts';
import { activeScorers } from './active-scorers.ts';
import { answerSchema } from './answer/answer-schema.ts';
import type { CallerOptions } from './calls/model-caller.ts';
import { ModelCapabilities } from './calls/model-capabilities.ts';
import { askCanary } from './canary.ts';
import { askedFirst, cascade } from './cascade.ts';
import { createJudgeOver, type JudgeOptions } from './judge-capture.ts';
import { assertBatchPossible, isStandIn, parseJudgeId } from './judge-id.ts';
import type { Taught } from './models/learned.ts';
import type { ModelProperties } from './models/model-properties.ts';
import { answerBounds, type JudgeParameters, readParameters } from './parameters.ts';
import { type PriceOptions, priceCall, priceOptions, propertiesIn } from './pricing/prices.ts';
import { answerTokens } from './pricing/request-tokens.ts';
import { buildPrompt } from './prompt/build-prompt.ts';
import { createAlwaysRule } from './scorers/always-rules.ts';
import { isCodeScorer, isModelScorer } from './scorers/scorer-set.ts';
import { emptySpend } from './spend.ts';
import { loadApiKey } from './transports/api-key.ts';
import { type BedrockTransport, bedrockTransport } from './transports/bedrock.ts';
import { openAiTransport } from './transports/openai.ts';
import { sageMakerTransport } from './transports/sagemaker.ts';
import type { JudgeTransport } from './transports/transport.ts';
import type { CallUsage, Judge, JudgeMoney, JudgeScorer } from './types.ts';

/** Connects the judge of a function, with its scorers and rules. */
export function connectJudge(environment: FunctionSettings) {
  const scorers = activeScorers(environment);
  const always = createAlwaysRule(environment.EVALUATION_ALWAYS, scorers.filter(isCodeScorer));
  return { judge: cascadeOf(environment), scorers, always };
}

/** Returns the cost of a call. A stand-in is free, whatever the model costs. */
const paidFor = (model: string, ...call: [usage: CallUsage, prices: PriceOptions]): number | null =>
  isStandIn(model) ? 0 : priceCall(model, ...call);

interface JudgeSettings extends Pick<LambdaEnvironment, keyof typeof sharedSettings> {
  /** The key itself, on a person's own machine. */
  JUDGE_API_KEY?: string;
  /** Objects that the calls of a function share with each other, and with calls of other functions. */
  shared?: Pick<CallerOptions, 'limiter'> & { limits?: Limits['judge'] } & Taught['shared'];
}

type FunctionSettings = LambdaEnvironment & Pick<JudgeSettings, 'shared'>;

/**
 * Creates the judge of these settings, for online calls. The key of a judge outside AWS is read from Secrets Manager with the
 * first call, so that a key that cannot be read fails only verdicts, and again when the server stops accepting it.
 *
 * @throws PermanentError `InvalidJudge`, `InvalidModelParameters`
 */
export function judgeOf(settings: JudgeSettings, more: Pick<JudgeOptions, 'maxAnswers'> = {}): Judge {
  const { BEDROCK_MODEL_ID: model, JUDGE_PRICES, MLFLOW_EVALUATION_MODEL_PARAM: given } = settings;
  const parameters = readParameters(given, [model]);
  const properties = propertiesIn(model, JUDGE_PRICES);
  const prices = priceOptions(settings);
  const price = (usage: CallUsage) => paidFor(model, usage, prices);
  const options = { ...sharedBy(settings), ...answerBounds(parameters), properties, price, ...more };
  return createJudgeOver(transportOf(settings, parameters, properties), options);
}

/** @throws PermanentError `InvalidJudge` */
function transportOf(
  settings: JudgeSettings,
  parameters: JudgeParameters,
  properties: ModelProperties | undefined,
): JudgeTransport {
  const { scheme, name } = parseJudgeId(settings.BEDROCK_MODEL_ID);
  if (scheme === 'sagemaker') return sageMakerTransport(name, parameters);
  if (scheme === 'bedrock') return bedrockTransport(name, parameters, undefined, properties);
  const { JUDGE_BASE_URL: baseUrl, JUDGE_API_KEY: key, JUDGE_SECRET_ARN: secret } = settings;
  const apiKey = key ?? (secret === undefined ? undefined : () => loadApiKey(undefined, secret));
  return openAiTransport({ model: name, baseUrl, apiKey, parameters });
}

const sharedBy = ({ shared, BEDROCK_MODEL_ID: model }: JudgeSettings) => ({
  ...shared,
  limits: shared?.limits?.(model),
  learned: shared?.learned?.(model),
});

/** Creates the judge of these settings, behind the first model of the cascade if they name one. */
export function cascadeOf(settings: JudgeSettings): Judge {
  const main = judgeOf(settings);
  if (settings.JUDGE_CASCADE === undefined) return main;
  return cascade(judgeOf(firstSettings(settings), { maxAnswers: 1 }), main);
}

/**
 * Returns the settings of the model that is asked first in a cascade. The guardrail applies to it too, other inference
 * parameters only to the judge.
 */
function firstSettings<S extends JudgeSettings>(settings: S): S {
  const { JUDGE_CASCADE: BEDROCK_MODEL_ID, MLFLOW_EVALUATION_MODEL_PARAM: given } = settings;
  if (BEDROCK_MODEL_ID === undefined) return settings;
  const parameters = given.guardrail === undefined ? {} : { guardrail: given.guardrail };
  return { ...settings, BEDROCK_MODEL_ID, MLFLOW_EVALUATION_MODEL_PARAM: parameters };
}

/**
 * Returns the Converse request of one line of a job's input (`modelInvocationType: Converse`), which asks all scorers of a capture.
 * If the model is known to accept a schema, the answer has one. Else the text describes the form, because a batch job refuses each
 * record with a tool ("Process multiple prompts with batch inference").
 */
function modelInputOf(
  transport: BedrockTransport,
  capture: Capture,
  scorers: readonly JudgeScorer[],
  bounds: JudgeOptions,
): Record<string, unknown> {
  const { learned, properties, maxTokens } = bounds;
  const capabilities = new ModelCapabilities(properties);
  if (learned?.refused !== undefined) capabilities.adopt(learned.refused);
  const own = answerTokens(scorers.length, bounds);
  const rung = properties !== undefined && capabilities.supports('json-schema') ? 'json-schema' : 'prompt';
  // A job has its own price, and no tier.
  const { modelId, serviceTier, ...modelInput } = transport.request({
    prompt: buildPrompt(capture, scorers, rung),
    schema: answerSchema(scorers),
    maxTokens: (maxTokens === undefined ? learned?.bound(own) : own) ?? own,
    // Prompt caching helps only calls that follow each other.
    supports: (feature) => feature !== 'cache' && capabilities.supports(feature),
  });
  return { ...modelInput };
}

/** The parts of the judge that batch inference needs. */
export type BatchJudging = ReturnType<typeof connectBatchJudge>;

/**
 * Connects the judge of batch jobs. In a cascade, the jobs ask the first model, which must be on Bedrock.
 * @throws PermanentError `InvalidJudge` when the model that the jobs ask is not listed for batch inference
 */
export function connectBatchJudge(environment: FunctionSettings) {
  const settings = firstSettings(environment);
  const { name } = parseJudgeId(settings.BEDROCK_MODEL_ID);
  const online = priceOptions(environment);
  const batch = priceOptions(environment, 'batch');
  const parameters = readParameters(settings.MLFLOW_EVALUATION_MODEL_PARAM, [name]);
  const properties = propertiesIn(name, environment.JUDGE_PRICES);
  assertBatchPossible(settings.BEDROCK_MODEL_ID, properties);
  const transport = bedrockTransport(name, parameters, undefined, properties);
  const shared = sharedBy(settings);
  const bounds = { ...answerBounds(parameters), properties, learned: shared.learned };
  const isCascade = environment.JUDGE_CASCADE !== undefined;
  const asAsked = (scorers: readonly JudgeScorer[]) => (isCascade ? scorers.map(askedFirst) : scorers);
  const judgeAt = (price: JudgeOptions['price']): Judge =>
    createJudgeOver(transport, { ...shared, ...bounds, price, maxAnswers: isCascade ? 1 : undefined });
  const priceInBatch = (usage: CallUsage) => paidFor(name, usage, batch);
  const pricedAsBatch = judgeAt(priceInBatch);
  const first = judgeAt((usage) => (usage.batch ? priceInBatch(usage) : paidFor(name, usage, online)));
  const batchScorers = activeScorers(environment, 'batch');
  return {
    /** Asks a harmless question, unless the features that the model refuses are known. @returns the cost */
    async askCanary(money: JudgeMoney) {
      const asked = await shared.learned?.askOnce(() =>
        askCanary(first, asAsked(batchScorers.filter(isModelScorer)), money),
      );
      return asked?.spend ?? emptySpend();
    },
    record: (recordId: string, capture: Capture, scorers: readonly JudgeScorer[]) => ({
      recordId,
      modelInput: modelInputOf(transport, capture, asAsked(scorers), bounds),
    }),
    /**
     * Returns the maximum cost of the answer to a record, at the batch price. Returns `null` if the price is unknown.
     */
    maxCostUsd: (...[capture, scorers]: Parameters<Judge['maxCostUsd']>) =>
      pricedAsBatch.maxCostUsd(capture, asAsked(scorers)),
    /** Returns the cost of a batch job's answer in US dollars; `null` if the price is unknown. */
    priceInBatch,
    /** Reads a job's answers, and asks online where they are not enough; of a cascade, the main model too. */
    judge: isCascade ? cascade(first, judgeOf(environment)) : first,
    /** The active scorers in the form in which a job asks them. */
    batchScorers,
  };
}

/**
 * Returns a function that creates the budget of one chunk. The function returns `undefined` if neither a daily nor a
 * run budget is set.
 */
export function connectBudget(environment: LambdaEnvironment): (run: string, runUsd?: number) => Budget | undefined {
  const { EVALUATION_BUDGET_USD: dailyUsd } = environment;
  const table = limitsTable(environment);
  return (run, runUsd) =>
    dailyUsd === 0 && runUsd === undefined ? undefined : new Budget({ table, dailyUsd, runUsd, run });
}
