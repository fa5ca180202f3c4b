/** A self-hosted judge: a SageMaker endpoint that accepts OpenAI chat completions (vLLM, SGLang, LMI, TGI). */

import {
  InvokeEndpointCommand,
  SageMakerRuntimeClient,
  type SageMakerRuntimeClientConfig,
} from '@aws-sdk/client-sagemaker-runtime';
import { saidBy } from '../../core/errors/errors.ts';
import { CallFailure } from '../errors.ts';
import { judgeName, splitEndpoint } from '../judge-id.ts';
import type { JudgeParameters } from '../parameters.ts';
import { readAwsFailure } from './bedrock-failures.ts';
import { chatBody, readChatFailure, readCompletion } from './chat.ts';
import type { JudgeTransport } from './transport.ts';

/** SageMaker ends an invocation after 60 seconds. The margin lets its own error arrive. */
const INVOKE_TIMEOUT_MS = 70_000;

const COMPONENT_REMEDY =
  'sagemaker:/<endpoint>/<inference component> as BEDROCK_MODEL_ID for an endpoint with inference components, and sagemaker:/<endpoint> for one without';

interface ModelError extends Error {
  OriginalStatusCode?: number;
  OriginalMessage?: string;
}

/** @param name `<endpoint>`, or `<endpoint>/<inference component>` */
export function sageMakerTransport(
  name: string,
  parameters: JudgeParameters,
  client: SageMakerRuntimeClient = createSageMakerClient(),
): JudgeTransport {
  const { endpoint, component } = splitEndpoint(name);
  return {
    sourceId: judgeName(`sagemaker:/${name}`),
    userSet: parameters.userSet,
    async send(ask, signal) {
      const command = new InvokeEndpointCommand({
        EndpointName: endpoint,
        ...(component === undefined ? {} : { InferenceComponentName: component }),
        ContentType: 'application/json',
        Accept: 'application/json',
        Body: JSON.stringify(chatBody(ask, undefined, parameters)),
      });
      const { Body } = await client.send(command, { abortSignal: signal }).catch((error: unknown) => {
        throw readInvokeFailure(error, signal);
      });
      return readCompletion(Buffer.from(Body ?? []).toString('utf8'), ask);
    },
  };
}

/** The container's own error is wrapped in a `ModelError`. It decides the kind of failure. */
function readInvokeFailure(error: unknown, signal: AbortSignal | undefined): CallFailure {
  const { name, OriginalStatusCode: status, OriginalMessage: text, message } = error as ModelError;
  if (status !== undefined && !signal?.aborted) {
    const inner = readChatFailure(status, text ?? message, undefined);
    // A 404 of the container means a wrong route or model, as behind a URL.
    return new CallFailure(inner.kind, `The container of the endpoint answered ${inner.message}`, {
      feature: inner.feature,
      status,
      cause: error,
    });
  }
  // `Endpoint x of account y not found` is a 400, and so is a component that is missing, or not wanted.
  const isComponent = /inference component/i.test(message);
  if (name === 'ValidationError' && (isComponent || /not found/i.test(message))) {
    const remedy = isComponent ? COMPONENT_REMEDY : undefined;
    return new CallFailure('refused', saidBy(error), { remedy, cause: error });
  }
  return readAwsFailure(error, signal);
}

export function createSageMakerClient(config: SageMakerRuntimeClientConfig = {}): SageMakerRuntimeClient {
  return new SageMakerRuntimeClient({
    maxAttempts: 1,
    requestHandler: { requestTimeout: INVOKE_TIMEOUT_MS } as never,
    ...config,
  });
}
