/** The judge that a model id names: `bedrock:/<model>` (or just the model), `openai:/<model>`, `sagemaker:/<endpoint>`. */
import type { BedrockRuntimeClient } from '@aws-sdk/client-bedrock-runtime';
import type { SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
import { PermanentError } from '../shared/errors.ts';
import type { JudgeOptions } from './judge-capture.ts';
import type { CallUsage } from './model-answer.ts';
import { createBedrockJudge, type Guardrail } from './transports/bedrock.ts';
import { type ApiKey, createOpenAiJudge } from './transports/openai.ts';
import { createSageMakerJudge } from './transports/sagemaker.ts';
import type { Judge } from './types.ts';

/** US dollars of a call, or `null` when the model's price is not known: `priceCall` of `prices.ts`. */
type PriceCall = (modelId: string, usage: CallUsage) => number | null;

export interface JudgeConfig extends Omit<JudgeOptions, 'price' | 'maxTokens' | 'thinkingTokens'> {
  model: string;
  /** Inference parameters, as in `MLFLOW_EVALUATION_MODEL_PARAM`. */
  parameters?: Readonly<Record<string, unknown>>;
  priceCall?: PriceCall;
  /** Bedrock only. */
  guardrail?: Guardrail | undefined;
  /** `openai:/` only. */
  baseUrl?: string | undefined;
  apiKey?: ApiKey | undefined;
  /** Clients that are there already; else they are made with the SDK's defaults (region, credentials, endpoints). */
  clients?: { bedrockRuntime?: BedrockRuntimeClient; sagemakerRuntime?: SageMakerRuntimeClient };
}

type JudgeScheme = 'bedrock' | 'openai' | 'sagemaker';

/**
 * @returns the scheme, and what it names without it. A Bedrock ARN has colons and slashes of its own, and no scheme.
 * @throws PermanentError `InvalidJudge`
 */
export function parseJudgeId(model: string): { scheme: JudgeScheme; name: string } {
  const match = /^([a-z][a-z0-9_-]*):\/+(.+)$/.exec(model.trim());
  if (match === null) return { scheme: 'bedrock', name: model.trim() };
  const [, scheme, name = ''] = match;
  if (scheme === 'bedrock' || scheme === 'openai' || scheme === 'sagemaker') return { scheme, name };
  throw new PermanentError('InvalidJudge', 'The judge is of an unknown kind', {
    got: model,
    expected: 'bedrock:/<model>, openai:/<model> with JUDGE_BASE_URL, or sagemaker:/<endpoint>',
    where: 'BEDROCK_MODEL_ID',
  });
}

/** @throws PermanentError `InvalidJudge` when the judge is not on Bedrock, which alone has batch inference */
export function assertBatchPossible(model: string): void {
  if (parseJudgeId(model).scheme === 'bedrock') return;
  throw new PermanentError('InvalidJudge', 'Batch inference needs a judge on Bedrock', {
    got: model,
    expected: 'a Bedrock model as BEDROCK_MODEL_ID, or "judge": "converse"',
  });
}

/** @throws PermanentError `InvalidJudge`, `InvalidModelParameters` */
export function createJudge(config: JudgeConfig): Judge {
  const { model, priceCall, parameters, guardrail, baseUrl, apiKey, clients = {}, ...options } = config;
  const { scheme, name } = parseJudgeId(model);
  const common = {
    ...options,
    ...(parameters === undefined ? {} : { parameters }),
    ...(priceCall === undefined ? {} : { price: (usage: CallUsage) => priceCall(name, usage) }),
  };
  switch (scheme) {
    case 'openai':
      return createOpenAiJudge({ model: name, baseUrl, apiKey, ...common });
    case 'sagemaker':
      return createSageMakerJudge({
        endpointName: name,
        ...(clients.sagemakerRuntime ? { client: clients.sagemakerRuntime } : {}),
        ...common,
      });
    default:
      return createBedrockJudge({
        modelId: name,
        guardrail,
        ...(clients.bedrockRuntime ? { client: clients.bedrockRuntime } : {}),
        ...common,
      });
  }
}
