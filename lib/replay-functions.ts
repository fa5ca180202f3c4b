/** The functions of a cloud replay, with their permissions. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { REPLAY_DISK_MIB, REPLAYER_TIMEOUT_SECONDS } from '../src/core/contract/replay.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow, grantPseudonymKey, grantSecret } from './access/allow.ts';
import { grantCaptureRead } from './access/capture.ts';
import { grantModelLookUp } from './access/judge.ts';
import { grantArtifacts, grantMlflow } from './access/mlflow.ts';
import { grantWork } from './access/work.ts';
import { PipelineFunction, type PipelineFunctionProps, type StackContext } from './pipeline-function.ts';
import { replayEnvironment } from './settings/function-environment.ts';

/**
 * One full vCPU. Lambda allocates CPU in proportion to memory, with one vCPU at 1,769 MB. A function with less is paused for
 * the rest of each time slice once it has used its share, and requests due in that time are sent late. A second vCPU would
 * be idle, since the sender's event loop is one thread. The process itself takes about 150 MB. That leaves 1.6 GB for
 * requests and replies in flight, for example 30 of 25 MB each with replies of the same size. The steps after sending
 * process a few at a time, with the same memory.
 */
export const ONE_VCPU_MB = 1769;

type Limits = Pick<PipelineFunctionProps, 'memoryMb' | 'diskMib' | 'asyncRetries'>;

export type ReplayFunctions = Record<'planner' | 'replayer' | 'summarizer' | 'publisher' | 'stopper', PipelineFunction>;

/** Creates the functions in a scope, and grants them what they need. */
export function replayFunctions(scope: Construct, props: StackContext): ReplayFunctions {
  const { settings, environment } = props;
  const make = (id: string, folder: string, more: Pick<PipelineFunctionProps, 'name' | 'description'> & Limits) =>
    new PipelineFunction(scope, id, {
      settings,
      folder,
      environment: { ...environment, ...replayEnvironment(settings) },
      // More memory for the other functions means that payloads are large.
      memoryMb: Math.max(ONE_VCPU_MB, settings.LAMBDA_MEMORY_MB),
      timeoutSeconds: REPLAYER_TIMEOUT_SECONDS,
      diskMib: REPLAY_DISK_MIB,
      ...more,
    });
  const functions: ReplayFunctions = {
    planner: make('Plan', 'plan-replay', {
      name: 'replayPlanner',
      description: 'Plans the schedule of a replay and its shards',
    }),
    replayer: make('Shard', 'replay-shard', {
      name: 'replayer',
      description: 'Sends the requests of one shard of a replay',
      asyncRetries: 0,
    }),
    summarizer: make('Summary', 'summarize-replay', {
      name: 'replaySummarizer',
      description: 'Adds up the results of the shards of a replay',
      diskMib: undefined,
    }),
    publisher: make('Publication', 'publish-replay', {
      name: 'replayPublisher',
      description: 'Publishes the figures and files of a replay to its MLflow run',
    }),
    stopper: make('Stop', 'stop-replay', {
      name: 'replayStopper',
      description: 'Brings a replay to its end after its execution was stopped',
      // It only waits, and calls the others.
      memoryMb: settings.LAMBDA_MEMORY_MB,
      diskMib: undefined,
    }),
  };
  grant(functions, props);
  return functions;
}

function grant(
  { planner, replayer, summarizer, publisher, stopper }: ReplayFunctions,
  { settings, workBucket }: StackContext,
): void {
  for (const { role } of [planner, replayer]) {
    grantCaptureRead(role, settings);
    grantPseudonymKey(role, settings);
  }
  for (const { role } of [planner, publisher]) grantMlflow(role, settings);
  grantArtifacts(publisher.role, settings);
  grantWork(workBucket, planner.role, {
    read: ['replayStop', 'replayMarks'],
    write: ['replayPlan', 'replayMarks'],
    upload: ['replayManifest', 'replaySchedule'],
  });
  grantModelLookUp(planner.role, settings.BEDROCK_MODEL_ID);
  grantWork(workBucket, replayer.role, {
    read: ['replayPlan', 'replaySchedule', 'replayStop'],
    write: ['replayClaims'],
    upload: ['replayShards', 'replayExchanges'],
  });
  grantReplayTargets(replayer.role, settings);
  grantWork(workBucket, summarizer.role, {
    read: ['replayPlan', 'replayClaims', 'replayShards', 'replayStop'],
    write: ['replayPublication', 'replayResults'],
  });
  grantWork(workBucket, publisher.role, {
    read: ['replayPlan', 'replayPublication', 'replayResults', 'replayStop'],
  });
  grantWork(workBucket, stopper.role, {
    // It only checks whether the files of the shards and the summary exist.
    read: ['replayPlan', 'replayFigures', 'replayPublication', 'replayStop'],
    write: ['replayStop'],
  });
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
