/** The functions of a cloud replay, with their permissions. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { REPLAY_DISK_MIB } from '../src/core/contract/replay.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow, grantPseudonymKey, grantSecret } from './access/allow.ts';
import { grantCaptureRead } from './access/capture.ts';
import { grantModelLookUp } from './access/judge.ts';
import { grantArtifacts, grantMlflow } from './access/mlflow.ts';
import { PipelineFunction, type PipelineFunctionProps, type StackContext } from './pipeline-function.ts';
import { replayEnvironment } from './settings/function-environment.ts';

/**
 * One full vCPU. Lambda allocates CPU in proportion to memory, with one vCPU at 1,769 MB. A function with less is
 * paused for the rest of each time slice once it has used its share, and requests due in that time are sent late. A
 * second vCPU would be idle, because the sender's event loop is one thread. The process itself takes about 150 MB. That
 * leaves 1.6 GB for requests and replies in flight, for example 30 of 25 MB each with replies of the same size. The
 * later steps process a few at a time, with the same memory.
 */
export const ONE_VCPU_MB = 1769;

export type ReplayFunctions = Record<'planner' | 'replayer' | 'summarizer', PipelineFunction>;

/** Creates the functions in a scope, and grants them the required permissions. */
export function replayFunctions(scope: Construct, props: StackContext): ReplayFunctions {
  const { settings, workBucket, environment } = props;
  const make = (id: string, name: PipelineFunctionProps['name'], more: Partial<PipelineFunctionProps> = {}) =>
    new PipelineFunction(scope, id, {
      settings,
      workBucket,
      name,
      environment: { ...environment, ...replayEnvironment(settings) },
      // More memory for the other functions means that payloads are large.
      memoryMb: Math.max(ONE_VCPU_MB, settings.LAMBDA_MEMORY_MB),
      diskMib: REPLAY_DISK_MIB,
      ...more,
    });
  const planner = make('Plan', 'replayPlanner');
  const replayer = make('Shard', 'replayer', { asyncRetries: 0 });
  const summarizer = make('Summary', 'replaySummarizer', { diskMib: undefined });
  for (const { role } of [planner, replayer]) {
    grantCaptureRead(role, settings);
    grantPseudonymKey(role, settings);
  }
  for (const { role } of [planner, summarizer]) grantMlflow(role, settings);
  grantArtifacts(summarizer.role, settings);
  grantModelLookUp(planner.role, settings.BEDROCK_MODEL_ID);
  grantReplayTargets(replayer.role, settings);
  return { planner, replayer, summarizer };
}

/** Streaming is a separate action: with only the first, a replay fails as soon as it streams. */
const INVOKE = ['sagemaker:InvokeEndpoint', 'sagemaker:InvokeEndpointWithResponseStream'];

/** Grants the endpoints, their inference components, and the secret with the headers for a URL. */
function grantReplayTargets(role: Role, settings: Settings): void {
  const { partition, region, account } = Stack.of(role);
  const sageMaker = `arn:${partition}:sagemaker:${region}:${account}`;
  // IAM spells endpoints in lower case.
  const endpoints = settings.REPLAY_ENDPOINT_NAMES.map((name) => `${sageMaker}:endpoint/${name.toLowerCase()}`);
  if (endpoints.length > 0) allow(role, { actions: INVOKE, resources: endpoints });
  // IAM's spelling of components is not documented, so both are allowed: unchanged and in lower case.
  const components = settings.REPLAY_INFERENCE_COMPONENT_NAMES.flatMap((name) => [name, name.toLowerCase()]).map(
    (name) => `${sageMaker}:inference-component/${name}`,
  );
  if (components.length > 0) allow(role, { actions: INVOKE, resources: [...new Set(components)] });
  grantSecret(role, settings.REPLAY_HEADERS_SECRET_ARN);
}
