/** Creates the judge that a model id names: `bedrock:/<model>` (or only the model), `openai:/<model>`, `sagemaker:/…`. */
import type { BedrockRuntimeClient } from '@aws-sdk/client-bedrock-runtime';
import type { SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
import { createJudgeOver, type JudgeOptions } from './judge-capture.ts';
import { parseJudgeId } from './judge-id.ts';
import { bedrockTransport, type Guardrail } from './transports/bedrock.ts';
import { type ApiKey, openAiTransport } from './transports/openai.ts';
import { answerBounds, type JudgeParameters, readParameters } from './transports/parameters.ts';
import { sageMakerTransport } from './transports/sagemaker.ts';
import type { JudgeTransport } from './transports/transport.ts';
import type { Judge } from './types.ts';

export interface JudgeConfig extends Omit<JudgeOptions, 'maxTokens' | 'thinkingTokens'> {
  model: string;
  /** Inference parameters, as in `MLFLOW_EVALUATION_MODEL_PARAM`. */
  parameters?: Readonly<Record<string, unknown>>;
  /** Bedrock only. */
  guardrail?: Guardrail | undefined;
  /** `openai:/` only. */
  baseUrl?: string | undefined;
  apiKey?: ApiKey | undefined;
  fetch?: typeof fetch;
  /** Default: clients with the SDK's defaults (region, credentials, endpoints). */
  clients?: { bedrockRuntime?: BedrockRuntimeClient; sagemakerRuntime?: SageMakerRuntimeClient };
}

/** @throws PermanentError `InvalidJudge`, `InvalidModelParameters` */
export function createJudge({ parameters: given, ...config }: JudgeConfig): Judge {
  const parameters = readParameters(given, [config.model]);
  return createJudgeOver(createTransport(config, parameters), { ...answerBounds(parameters), ...config });
}

function createTransport(config: Omit<JudgeConfig, 'parameters'>, parameters: JudgeParameters): JudgeTransport {
  const { baseUrl, apiKey, fetch, guardrail, clients = {} } = config;
  const { scheme, name } = parseJudgeId(config.model);
  switch (scheme) {
    case 'openai':
      return openAiTransport({ model: name, baseUrl, apiKey, parameters, fetch });
    case 'sagemaker':
      return sageMakerTransport(name, parameters, clients.sagemakerRuntime);
    default:
      return bedrockTransport(name, parameters, guardrail, clients.bedrockRuntime);
  }
}
