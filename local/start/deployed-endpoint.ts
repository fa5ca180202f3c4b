/** Deploys the stack of each endpoint. */
import { availableParallelism } from 'node:os';
import type { EndpointCaptures } from '../../bin/operate/capture-files.ts';
import { putCaptures } from '../../bin/operate/process-files.ts';
import type { StackOutputs } from '../../src/core/contract/names.ts';
import { CAPTURE_BUCKET, type LocalEnvironment } from './environment.ts';

/** An endpoint's captures and the stack that watches them. */
export interface DeployedEndpoint extends EndpointCaptures {
  prefix: string;
  outputs: StackOutputs;
}

/** STACK_PREFIX of the first endpoint. Those of further endpoints are numbered. */
const PREFIX = 'local';

/** Concurrent chunks of a run. Each Lambda is a process of about 100 MB that keeps a core busy. */
const CHUNK_CONCURRENCY = Math.max(4, availableParallelism());

/**
 * With more files than this, they are put before the stack is deployed and one backfill processes them, since an
 * execution for a few files takes seconds each.
 */
const MOST_BY_RULE = 20;

/** Whether one backfill processes an endpoint's files, instead of the bucket's rule, which starts an execution for a few at a time. */
export const isBackfill = ({ files }: Pick<EndpointCaptures, 'files'>): boolean => files.length > MOST_BY_RULE;

/** The endpoint that the stacks may replay to, as in the README. A stand-in answers for it. */
export const REPLAY_ENDPOINT = 'my-endpoint-v2';

/** The prefix of the labels of an endpoint, which its stack watches. */
export const labelPrefix = (endpoint: string): string => `labels/${endpoint}/`;

/** Each stack takes about 5 s to deploy. */
const MAX_ENDPOINTS = 8;

/**
 * Deploys one stack per endpoint, as on AWS, where a stack watches one endpoint. Files for a backfill are put before the
 * stack receives events.
 *
 * @param settings additional settings of each stack
 * @throws Error with the endpoints if there are too many
 */
export async function deployEndpoints(
  environment: LocalEnvironment,
  endpoints: readonly EndpointCaptures[],
  settings: Record<string, string>,
  onProgress: (text: string) => void,
  signal?: AbortSignal,
): Promise<DeployedEndpoint[]> {
  if (endpoints.length > MAX_ENDPOINTS) {
    throw new Error(
      `Captures of too many endpoints; got: ${endpoints.length} (${endpoints.map((one) => one.endpoint).join(', ')}); expected: ${MAX_ENDPOINTS} at most, since each gets a stack. Pass the folder of one endpoint, or one name for all with --endpoint`,
    );
  }
  const deployed: DeployedEndpoint[] = [];
  for (const [index, captures] of endpoints.entries()) {
    const prefix = index === 0 ? PREFIX : `${PREFIX}-${index + 1}`;
    onProgress(`Deploying the stack of ${captures.endpoint} to the emulated AWS …`);
    const own = {
      ...settings,
      STACK_PREFIX: prefix,
      SAGEMAKER_ENDPOINT_NAME: captures.endpoint,
      DATA_CAPTURE_S3_PREFIX: `${captures.endpoint}/`,
      GROUND_TRUTH_S3_PREFIX: `s3://${CAPTURE_BUCKET}/${labelPrefix(captures.endpoint)}`,
      MLFLOW_EXPERIMENT_NAME: captures.endpoint,
      MAX_CONCURRENCY: String(CHUNK_CONCURRENCY),
      BATCH_WINDOW_SECONDS: '0',
      REPLAY_ENDPOINT_NAMES: REPLAY_ENDPOINT,
    };
    const fill = () => putCaptures(environment.clients, CAPTURE_BUCKET, captures.files, signal);
    const outputs = await environment.deployStack(own, isBackfill(captures) ? fill : undefined);
    deployed.push({ ...captures, prefix, outputs });
  }
  return deployed;
}
