/** A self-hosted judge: a SageMaker endpoint that takes OpenAI's chat completions (vLLM, SGLang, LMI, TGI). */
import {
  InvokeEndpointCommand,
  SageMakerRuntimeClient,
  type SageMakerRuntimeClientConfig,
} from '@aws-sdk/client-sagemaker-runtime';
import { knownWords } from '../../shared/known-words.ts';
import { CallFailure } from '../errors.ts';
import { createJudgeOver, type JudgeOptions } from '../judge-capture.ts';
import type { ModelAnswer } from '../model-answer.ts';
import type { Judge } from '../types.ts';
import { readAwsFailure } from './bedrock-failures.ts';
import { chatBody, readChatFailure, readCompletion } from './chat.ts';
import { answerBounds, type JudgeParameters, readParameters } from './parameters.ts';
import type { Ask, JudgeTransport } from './transport.ts';

/** SageMaker ends an invocation after 60 seconds; the margin lets its own error arrive. */
const CALL_TIMEOUT_MS = 70_000;

interface SageMakerJudgeConfig extends JudgeOptions {
  /** With or without `sagemaker:/`. */
  endpointName: string;
  client?: SageMakerRuntimeClient;
  inferenceComponentName?: string | undefined;
  /** Name of the model as the container knows it, where it serves several. */
  model?: string | undefined;
  parameters?: Readonly<Record<string, unknown>> | undefined;
}

interface ModelError extends Error {
  OriginalStatusCode?: number;
  OriginalMessage?: string;
}

class SageMakerTransport implements JudgeTransport {
  readonly sourceId: string;
  readonly userSet: ReadonlySet<string>;
  private readonly config: SageMakerJudgeConfig;
  private readonly endpointName: string;
  private readonly client: SageMakerRuntimeClient;
  private readonly parameters: JudgeParameters;

  constructor(config: SageMakerJudgeConfig, parameters: JudgeParameters) {
    this.config = config;
    this.endpointName = config.endpointName.replace(/^sagemaker:\/+/, '');
    this.sourceId = `sagemaker:/${this.endpointName}`;
    this.client = config.client ?? createSageMakerClient();
    this.parameters = parameters;
    this.userSet = parameters.userSet;
  }

  async send(ask: Ask, signal?: AbortSignal): Promise<ModelAnswer> {
    const { inferenceComponentName, model } = this.config;
    const command = new InvokeEndpointCommand({
      EndpointName: this.endpointName,
      InferenceComponentName: inferenceComponentName,
      ContentType: 'application/json',
      Accept: 'application/json',
      Body: JSON.stringify(chatBody(ask, model, this.parameters)),
    });
    let text: string;
    try {
      const { Body } = await this.client.send(command, signal === undefined ? {} : { abortSignal: signal });
      text = Buffer.from(Body ?? new Uint8Array()).toString('utf8');
    } catch (error) {
      throw readInvokeFailure(error, signal);
    }
    return readCompletion(text, ask);
  }
}

/** The container's own error comes wrapped in a `ModelError`: what it said decides. */
function readInvokeFailure(error: unknown, signal: AbortSignal | undefined): CallFailure {
  const { name, OriginalStatusCode: status, OriginalMessage: text, message } = error as ModelError;
  if (name === 'ModelError' && status !== undefined && !signal?.aborted) {
    const inner = readChatFailure(status, text ?? message, undefined);
    // A 404 of the container is a wrong route or model, as it is behind a URL.
    return new CallFailure(inner.kind, `The container of the endpoint answered ${inner.message}`, {
      feature: inner.feature,
      status,
      cause: error,
    });
  }
  // `Endpoint x of account y not found` is a 400.
  if (name === 'ValidationError' && /not found/i.test(message))
    return new CallFailure('refused', `${name}: ${knownWords(message)}`, { cause: error });
  return readAwsFailure(error, signal);
}

export function createSageMakerClient(config: SageMakerRuntimeClientConfig = {}): SageMakerRuntimeClient {
  return new SageMakerRuntimeClient({
    maxAttempts: 1,
    requestHandler: { requestTimeout: CALL_TIMEOUT_MS } as never,
    ...config,
  });
}

export function createSageMakerJudge(config: SageMakerJudgeConfig): Judge {
  const parameters = readParameters(config.parameters);
  return createJudgeOver(new SageMakerTransport(config, parameters), { ...answerBounds(parameters), ...config });
}
