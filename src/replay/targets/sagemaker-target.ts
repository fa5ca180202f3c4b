/** Sends requests to a SageMaker endpoint. */
import type { SignatureV4 } from '@smithy/signature-v4';
import type { AwsCredentialIdentityProvider } from '@smithy/types';
import { awsUrl } from '../../core/aws/aws-url.ts';
import { SHA256 } from '../../core/aws/signing.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { replayInferenceId } from '../marks/believe.ts';
import type { LiteralRequest } from '../request/literal.ts';
import { REPLAY_RUN_ATTRIBUTE } from '../source/peek.ts';
import {
  type Encoded,
  headerSafe,
  hostHeader,
  httpRequest,
  originOf,
  type RequestIdentity,
  type Target,
  USER_AGENT,
} from './target.ts';

export interface SageMakerTargetOptions {
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
/** SageMaker's names. Those of a variant and a component are headers. */
const NAME = /^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$/;
/** SageMaker allows 1,024 visible characters of custom attributes. */
const MAX_ATTRIBUTES = 1024;

/**
 * A SageMaker endpoint. Uses `InvokeEndpoint`, and `InvokeEndpointWithResponseStream` for requests that ask for a stream.
 * Requests are signed when they are prepared, seconds before they are due: only the write remains for the due time.
 */
export class SageMakerTarget implements Target {
  readonly origin;
  readonly description;
  readonly goodForMs: number;
  readonly #signer: SignatureV4;
  readonly #options: SageMakerTargetOptions;
  readonly #host: string;

  private constructor(options: SageMakerTargetOptions, signer: SignatureV4) {
    const url = options.url ?? awsUrl('runtime.sagemaker', options.region);
    if (!URL.canParse(url))
      throw new PermanentError('InvalidTarget', 'The address of the SageMaker runtime is not a URL', { got: url });
    this.origin = originOf(new URL(url));
    this.#host = hostHeader(this.origin);
    this.goodForMs = options.goodForMs ?? SIGNATURE_MS;
    this.#options = options;
    this.#signer = signer;
    const { endpoint, variant, inferenceComponent, region } = options;
    this.description = {
      kind: 'sagemaker',
      endpoint,
      region,
      ...(variant ? { variant } : {}),
      ...(inferenceComponent ? { inferenceComponent } : {}),
      ...(options.url ? { url: options.url } : {}),
    };
  }

  /** @throws PermanentError `InvalidTarget` */
  static async create(options: SageMakerTargetOptions): Promise<SageMakerTarget> {
    const { endpoint, variant, inferenceComponent } = options;
    const names = {
      'endpoint name': endpoint,
      'variant name': variant,
      'inference component name': inferenceComponent,
    };
    for (const [what, name] of Object.entries(names)) {
      if (name === undefined || NAME.test(name)) continue;
      const expected = 'at most 63 letters, digits and hyphens';
      throw new PermanentError('InvalidTarget', `The ${what} is invalid`, { got: name, expected });
    }
    const { SignatureV4 } = await import('@smithy/signature-v4');
    const signer = new SignatureV4({
      service: 'sagemaker',
      region: options.region,
      credentials: options.credentials,
      sha256: SHA256,
    });
    return new SageMakerTarget(options, signer);
  }

  async encode(request: LiteralRequest, identity: RequestIdentity): Promise<Encoded> {
    const { endpoint, variant, inferenceComponent } = this.#options;
    const inferenceId = replayInferenceId(this.#options.mark?.id ?? '', identity.run, identity.eventKey, identity.pass);
    const attributes = `${REPLAY_RUN_ATTRIBUTE}=${identity.run};event_id=${identity.eventKey}`;
    const headers: Record<string, string> = {
      host: this.#host,
      'content-type': request.contentType,
      'x-amzn-sagemaker-inference-id': inferenceId,
      'x-amzn-sagemaker-custom-attributes': headerSafe(attributes).slice(0, MAX_ATTRIBUTES),
      ...(variant ? { 'x-amzn-sagemaker-target-variant': variant } : {}),
      ...(inferenceComponent ? { 'x-amzn-sagemaker-inference-component': inferenceComponent } : {}),
    };
    const path = `/endpoints/${endpoint}/invocations${request.streaming ? '-response-stream' : ''}`;
    const signed = await this.#signer.sign({
      method: 'POST',
      protocol: this.origin.tls ? 'https:' : 'http:',
      hostname: this.origin.hostname,
      port: this.origin.port,
      path,
      query: {},
      headers,
      body: request.body,
    });
    const sent = [...Object.entries(signed.headers), ['user-agent', USER_AGENT] as [string, string]];
    return { ...httpRequest('POST', path, sent, request.body), inferenceId };
  }
}
