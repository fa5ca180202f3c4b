/** Assembles the MLflow client, which implements the pipeline's port `TraceStore`. */
import type { S3Client } from '@aws-sdk/client-s3';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import type { AwsCredentialIdentityProvider } from '@smithy/types';
import type { RetryPolicy } from '../core/process/retry.ts';
import { type Authorizer, anonymous, type MlflowSecretSource, secretAuthorizer, sigV4Authorizer } from './auth.ts';
import { AssessmentWriter, readTraces } from './existing-traces.ts';
import { claimExperiment, experimentNotice, getExperiment, resolveExperiment } from './experiments.ts';
import { MlflowRest, type RestOptions } from './rest.ts';
import { parseTrackingUri, type TrackingTarget } from './tracking-uri.ts';
import { createHttpTransport } from './transport.ts';
import type { Experiment, ExperimentOwner } from './types.ts';
import { TraceWriter } from './write-traces.ts';

/**
 * 8 attempts have 7 waits, on average 0.25 + 0.5 + 1 + 2 + 4 + 4 + 4 = 16 s and at most 32 s. That outlasts a restart of
 * the server, and is short compared with a Lambda's 15 minutes. Longer outages are left to the state machine's retries.
 */
const MLFLOW_RETRY: RetryPolicy = { attempts: 8, baseMs: 500, capMs: 8_000, longestRetryAfterMs: 30_000 };

export interface MlflowClientOptions extends Pick<RestOptions, 'timeoutMs' | 'limits'> {
  /** An ARN of SageMaker-managed MLflow, or an http(s) URL. */
  trackingUri: string;
  /** Replaces the URL that belongs to the ARN. */
  customEndpoint?: string;
  /** The secret for a URL. A function is called on first use, and again when the server stops accepting the secret. */
  secret?: MlflowSecretSource;
  /** Credentials for signing requests to an ARN. Default: the credentials of the environment. */
  credentials?: AwsCredentialIdentityProvider;
  /** Puts spans into the S3 bucket of the experiment, if the server does not accept spans. */
  s3?: S3Client;
  retry?: Partial<RetryPolicy>;
}

export type MlflowClient = ReturnType<typeof createMlflowClient>;

/** The port through which the pipeline sees MLflow. */
export type TraceStore = Pick<
  MlflowClient,
  'resolveExperiment' | 'getExperiment' | 'getTraces' | 'writeTraces' | 'spansForm' | 'mendTraces' | 'writeAssessments'
>;

/**
 * Creates a client of an MLflow server. It connects with the first request.
 *
 * @throws PermanentError `MlflowTrackingUriInvalid`
 *
 * @example
 *     const mlflow = createMlflowClient({ trackingUri: 'http://127.0.0.1:5000' });
 *     const { id } = await mlflow.resolveExperiment('my-endpoint');
 */
export function createMlflowClient(options: MlflowClientOptions) {
  const target = parseTrackingUri(options.trackingUri, options.customEndpoint);
  const transport = createHttpTransport();
  const { timeoutMs, limits, s3 } = options;
  const [authorizer, retry] = [authorizerFor(target, options), { ...MLFLOW_RETRY, ...options.retry }];
  const rest = new MlflowRest({ target, authorizer, transport, retry, timeoutMs, limits });
  const traceWriter = new TraceWriter(rest, s3);
  const assessmentWriter = new AssessmentWriter(rest);
  return {
    /**
     * Finds the experiment by its name, or creates it.
     *
     * @param owner is recorded in the experiment, unless another stack is recorded
     * @returns the experiment. For an owner also a notice, if a person should know something before the stack writes to
     *   it
     * @throws PermanentError `MlflowExperimentOfOtherStack` if another stack was the first to write the endpoint's
     *   traces there
     */
    resolveExperiment: async (name: string, owner?: ExperimentOwner): Promise<Experiment & { notice?: string }> => {
      // Create no experiment on a server that cannot store the traces.
      await rest.probe.get();
      const experiment = await resolveExperiment(rest, name);
      if (owner === undefined) return experiment;
      const notice = await experimentNotice(rest, name, experiment, owner);
      await claimExperiment(rest, experiment, name, owner);
      return { ...experiment, notice };
    },
    getExperiment: (id: string) => getExperiment(rest, id),
    /** Returns the existing traces among any number of ids, with their assessments. */
    getTraces: (experimentId: string, traceIds: readonly string[]) => readTraces(rest, experimentId, traceIds),
    writeTraces: traceWriter.write.bind(traceWriter),
    spansForm: traceWriter.spansForm.bind(traceWriter),
    mendTraces: traceWriter.mend.bind(traceWriter),
    writeAssessments: assessmentWriter.write.bind(assessmentWriter),
    target,
    /** The REST client for other calls: runs and their files. */
    rest,
    /** The capabilities of the server, refreshed every minute. */
    capabilities: rest.probe.get,
    /** Closes idle connections. */
    close: transport.close,
  };
}

function authorizerFor(target: TrackingTarget, options: MlflowClientOptions): Authorizer {
  if (target.kind === 'url') return options.secret ? secretAuthorizer(options.secret) : anonymous;
  return sigV4Authorizer(target, options.credentials ?? defaultProvider());
}
