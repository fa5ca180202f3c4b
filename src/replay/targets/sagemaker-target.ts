/** Sends requests to a SageMaker endpoint. */
import type { AwsCredentialIdentityProvider } from '@smithy/types';
import { awsUrl } from '../../core/aws/aws-url.ts';
import { SHA256 } from '../../core/aws/signing.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { replayInferenceId } from '../marks/believe.ts';
import { headerSafe, httpRequest, originOf, type Target, USER_AGENT } from '../request/target.ts';
import { REPLAY_RUN_ATTRIBUTE } from '../source/peek.ts';

interface SageMakerTargetOptions {
  endpoint: string;
  region: string;
  credentials: AwsCredentialIdentityProvider;
  variant?: string;
  inferenceComponent?: string;
  /** URL of the SageMaker runtime, for an emulator or a private endpoint. */
  url?: string;
  /** The registration of the replay, which a long one renews. Without an id, its requests count as traffic. */
  mark?: { id?: string | undefined };
  /** Set by tests. */
  goodForMs?: number;
}

/** A signature is valid for five minutes by the clock of the service. This machine's clock may differ by one or two. */
const SIGNATURE_MS = 2 * 60_000;
/** SageMaker's rule for endpoint names. Names of variants and components are sent as headers. */
const NAME = /^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$/;
/** SageMaker allows 1,024 visible characters of custom attributes. */
const MAX_ATTRIBUTES = 1024;

/**
 * A SageMaker endpoint. Uses `InvokeEndpoint`, and `InvokeEndpointWithResponseStream` for requests that ask for a stream.
 * Requests are signed when they are prepared, seconds before they are due: only the write remains for the due time.
 *
 * @throws PermanentError `InvalidTarget`
 *
 * @example
 *     const target = await sageMakerTarget({ endpoint: 'my-endpoint', region: 'eu-west-1', credentials });
 */
export async function sageMakerTarget(options: SageMakerTargetOptions): Promise<Target> {
  const { endpoint, variant, inferenceComponent, region, credentials, mark, goodForMs = SIGNATURE_MS } = options;
  const names = { 'endpoint name': endpoint, 'variant name': variant, 'inference component name': inferenceComponent };
  for (const [what, name] of Object.entries(names)) {
    if (name === undefined || NAME.test(name)) continue;
    const expected = 'at most 63 letters, digits and hyphens';
    throw new PermanentError('InvalidTarget', `The ${what} is invalid`, { got: name, expected });
  }
  const url = options.url ?? awsUrl('runtime.sagemaker', region);
  if (!URL.canParse(url))
    throw new PermanentError('InvalidTarget', 'The address of the SageMaker runtime is not a URL', { got: url });
  const { SignatureV4 } = await import('@smithy/signature-v4');
  const signer = new SignatureV4({ service: 'sagemaker', region, credentials, sha256: SHA256 });
  const { host } = new URL(url);
  const origin = originOf(new URL(url));
  return {
    origin,
    goodForMs,
    description: {
      kind: 'sagemaker',
      endpoint,
      region,
      ...(variant ? { variant } : {}),
      ...(inferenceComponent ? { inferenceComponent } : {}),
      ...(options.url ? { url: options.url } : {}),
    },
    encode: async (request, { run, eventKey, pass }) => {
      const inferenceId = replayInferenceId(mark?.id ?? '', run, eventKey, pass);
      const attributes = `${REPLAY_RUN_ATTRIBUTE}=${run};event_id=${eventKey}`;
      const path = `/endpoints/${endpoint}/invocations${request.streaming ? '-response-stream' : ''}`;
      const signed = await signer.sign({
        method: 'POST',
        protocol: origin.tls ? 'https:' : 'http:',
        hostname: origin.hostname,
        port: origin.port,
        path,
        query: {},
        headers: {
          host,
          'content-type': request.contentType,
          'x-amzn-sagemaker-inference-id': inferenceId,
          'x-amzn-sagemaker-custom-attributes': headerSafe(attributes).slice(0, MAX_ATTRIBUTES),
          ...(variant ? { 'x-amzn-sagemaker-target-variant': variant } : {}),
          ...(inferenceComponent ? { 'x-amzn-sagemaker-inference-component': inferenceComponent } : {}),
        },
        body: request.body,
      });
      const sent = [...Object.entries(signed.headers), ['user-agent', USER_AGENT] as [string, string]];
      return { ...httpRequest('POST', path, sent, request.body), inferenceId };
    },
  };
}
