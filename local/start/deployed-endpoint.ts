import { availableParallelism } from 'node:os';
import { putFiles } from '../runs/process-files.ts';
import type { StackOutputs } from '../stack/stack-outputs.ts';
import type { EndpointCaptures } from './capture-files.ts';
import { CAPTURE_BUCKET, type LocalEnvironment } from './environment.ts';

/** An endpoint's captures and the stack that watches them. */
export interface DeployedEndpoint extends EndpointCaptures {
  prefix: string;
  outputs: StackOutputs;
}

/** Stack of the first endpoint; those of further ones are numbered. */
const PREFIX = 'local';

/** Chunks that one run has in the works at a time: a Lambda is a process of some 100 MB that keeps a core busy. */
const CHUNKS_AT_ONCE = Math.max(4, availableParallelism());

/**
 * More files than these are in the bucket before the stack is there, and one backfill takes them: an execution for each of
 * them takes a second of its own.
 */
const MOST_BY_RULE = 20;

/** Whether the files of an endpoint are processed by one backfill, and not one by one as the bucket's rule does. */
export const isBackfill = ({ files }: Pick<EndpointCaptures, 'files'>): boolean => files.length > MOST_BY_RULE;

/** The endpoint that the stacks may replay to, as in the README; a stand-in answers for it. */
const REPLAY_ENDPOINT = 'my-endpoint-v2';

/** Each stack takes some 5 s; who has more endpoints wants to choose. */
const MAX_ENDPOINTS = 8;

/**
 * Deploys one stack for each endpoint, as on AWS, where a stack watches one endpoint. Files for a backfill are put on the
 * way, before the stack could hear of them.
 *
 * @param settings further settings of each stack
 * @throws Error naming the endpoints when there are too many
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
      `Captures of too many endpoints; got: ${endpoints.length} (${endpoints.map((one) => one.endpoint).join(', ')}); expected: ${MAX_ENDPOINTS} at most, a stack each. Give the folder of one endpoint, or one name for all with --endpoint`,
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
      MLFLOW_EXPERIMENT_NAME: captures.endpoint,
      MAX_CONCURRENCY: String(CHUNKS_AT_ONCE),
      REPLAY_ENDPOINT_NAMES: REPLAY_ENDPOINT,
    };
    const fill = () => putFiles(environment.clients, CAPTURE_BUCKET, captures.files, signal);
    const outputs = await environment.deployStack(own, isBackfill(captures) ? fill : undefined);
    deployed.push({ ...captures, prefix, outputs });
  }
  return deployed;
}
