/** The MLflow client: puts together what implements the pipeline's port to MLflow. */
import type { S3Client } from '@aws-sdk/client-s3';
import type { AwsCredentialIdentityProvider } from '@smithy/types';
import { PermanentError } from '../shared/errors.ts';
import type { RetryPolicy } from '../shared/retry.ts';
import type { TraceRecord } from '../trace/types.ts';
import { AssessmentWriter } from './assessments.ts';
import { type Authorizer, anonymous, type MlflowSecretSource, secretAuthorizer } from './auth.ts';
import { CapabilityProbe, type ServerCapabilities } from './capabilities.ts';
import { getExperiment, resolveExperiment } from './experiments.ts';
import { readTraces } from './read-traces.ts';
import { MlflowRest } from './rest.ts';
import { sigV4Authorizer } from './sigv4.ts';
import { parseTrackingUri, type TrackingTarget } from './tracking-uri.ts';
import { createHttpTransport, type HttpTransport } from './transport.ts';
import type {
  Experiment,
  NewAssessment,
  StoredTrace,
  TraceStore,
  WriteAssessmentsResult,
  WriteTracesResult,
} from './types.ts';
import { TraceWriter } from './write-traces.ts';

/**
 * 8 attempts have 7 waits, on average 0.25 + 0.5 + 1 + 2 + 4 + 4 + 4 = 16 s and at most 32 s. That outlasts a restart of
 * the server, and is short compared with a Lambda's 15 minutes. Longer outages are left to the state machine's retries.
 */
const MLFLOW_RETRY: RetryPolicy = { attempts: 8, baseMs: 500, capMs: 8_000, longestRetryAfterMs: 30_000 };

export interface MlflowClientOptions {
  /** An ARN of SageMaker-managed MLflow, or an http(s) URL. */
  trackingUri: string;
  /** URL instead of the one that belongs to the ARN. */
  customEndpoint?: string;
  /** Of a URL; a function is called when it is first needed, and again when the server stops accepting the secret. */
  secret?: MlflowSecretSource;
  /** To sign requests to an ARN with. */
  credentials?: AwsCredentialIdentityProvider;
  /** To put spans into the experiment's S3 bucket, where the server does not take them. */
  s3?: S3Client;
  retry?: Partial<RetryPolicy>;
  /** Limit of one request in milliseconds; large bodies get more. Default 60,000. */
  timeoutMs?: number;
}

export interface MlflowClient extends TraceStore {
  readonly target: TrackingTarget;
  /** For what is neither a trace nor an assessment: runs and their files. */
  readonly rest: MlflowRest;
  /** What the server can do; looked up now and then. */
  capabilities(): Promise<ServerCapabilities>;
  /** Closes the kept connections. */
  close(): void;
}

class RestMlflowClient implements MlflowClient {
  readonly target: TrackingTarget;
  readonly rest: MlflowRest;
  readonly #transport: HttpTransport;
  readonly #probe: CapabilityProbe;
  readonly #traces: TraceWriter;
  readonly #assessments: AssessmentWriter;

  constructor(options: MlflowClientOptions) {
    this.target = parseTrackingUri(options.trackingUri, options.customEndpoint);
    this.#transport = createHttpTransport();
    this.rest = new MlflowRest({
      target: this.target,
      authorizer: authorizerFor(this.target, options),
      transport: this.#transport,
      retry: { ...MLFLOW_RETRY, ...options.retry },
      timeoutMs: options.timeoutMs,
    });
    this.#probe = new CapabilityProbe(this.rest);
    const { s3 } = options;
    this.#traces = new TraceWriter({ rest: this.rest, probe: this.#probe, ...(s3 ? { s3 } : {}) });
    this.#assessments = new AssessmentWriter(this.rest, this.#probe);
  }

  capabilities(): Promise<ServerCapabilities> {
    return this.#probe.get();
  }

  resolveExperiment(name: string): Promise<Experiment> {
    return resolveExperiment(this.rest, name);
  }

  getExperiment(id: string): Promise<Experiment> {
    return getExperiment(this.rest, id);
  }

  getTraces(experimentId: string, traceIds: readonly string[]): Promise<Map<string, StoredTrace>> {
    return readTraces(this.rest, this.#probe, experimentId, traceIds);
  }

  writeTraces(experiment: Experiment, traces: readonly TraceRecord[]): Promise<WriteTracesResult> {
    return this.#traces.write(experiment, traces);
  }

  mendTraces(experiment: Experiment, traces: readonly TraceRecord[]): Promise<void> {
    return this.#traces.mend(experiment, traces);
  }

  writeAssessments(trace: StoredTrace, assessments: readonly NewAssessment[]): Promise<WriteAssessmentsResult> {
    return this.#assessments.write(trace, assessments);
  }

  close(): void {
    this.#transport.close();
  }
}

/** @throws PermanentError `MlflowTrackingUriInvalid`, `MlflowCredentialsMissing` */
export function createMlflowClient(options: MlflowClientOptions): MlflowClient {
  return new RestMlflowClient(options);
}

function authorizerFor(target: TrackingTarget, options: MlflowClientOptions): Authorizer {
  if (target.kind === 'url') return options.secret ? secretAuthorizer(options.secret) : anonymous;
  if (options.credentials) return sigV4Authorizer(target, options.credentials);
  throw new PermanentError('MlflowCredentialsMissing', 'Requests to SageMaker MLflow are signed', {
    expected: 'AWS credentials given to the MLflow client',
    where: target.arn,
  });
}
