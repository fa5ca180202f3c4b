/** Cloud replays: the functions, the state machine that a person starts, and the rule that ends stopped replays. */

import { Rule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import * as sfn from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import { MAX_SHARDS, REPLAY_DISK_MIB } from '../src/core/contract/replay.ts';
import { replayKeys } from '../src/core/contract/work-keys.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow, componentArns, endpointArn, grantKey, grantPseudonymKey, grantSecret } from './access/allow.ts';
import { grantCaptureRead } from './access/capture.ts';
import { grantModelLookUp } from './access/judge.ts';
import { grantArtifacts, grantMlflow } from './access/mlflow.ts';
import { acknowledge } from './acknowledge.ts';
import { DELIVERY, eventQueue } from './event-delivery.ts';
import { type FunctionName, type FunctionOptions, PipelineFunction, type StackContext } from './pipeline-function.ts';
import { replayEnvironment } from './settings/function-environment.ts';
import { pipelineStateMachine, RUN } from './state-machines/pipeline.ts';
import { SHARD_RETRIES, STORE_RETRIES } from './state-machines/retries.ts';
import { endBySummary, invoke, overManifest } from './state-machines/states.ts';

/** @returns also the dead letters of replays that were stopped but could not be brought to their end */
export function cloudReplay(scope: Construct, context: StackContext, monitoring: sfn.IStateMachine) {
  const { settings, workBucket } = context;
  const functions = replayFunctions(scope, context);
  // The exchanges are traced and judged by a run of the monitoring.
  const { stateMachineArn } = monitoring;
  allow(functions.summarizer.role, { actions: ['states:StartExecution'], resources: [stateMachineArn] });
  functions.summarizer.function.addEnvironment('STATE_MACHINE_ARN', stateMachineArn);
  const machine = new Construct(scope, 'Machine');
  const stateMachine = pipelineStateMachine(machine, {
    settings,
    name: 'replayStateMachine',
    comment: 'Sends captured traffic to another endpoint, with its captured timing',
    workBucket,
    functions: Object.values(functions),
    maps: { manifests: ['replayManifest'], results: ['replayMapResult'] },
    definition: replayStates(machine, functions, workBucket),
  });
  const notEnded = endStopped(new Construct(scope, 'Stopping'), settings, stateMachine, functions.summarizer);
  return { stateMachine, notEnded };
}

/**
 * Ends a replay whose execution was stopped or has failed. Step Functions does not stop the Lambdas that are sending,
 * and no further state of the execution runs. So an EventBridge rule calls the summarizer.
 *
 * @returns the queue of events that could not be delivered, and of events for which every attempt of the function
 *   failed
 */
function endStopped(
  scope: Construct,
  settings: Settings,
  replay: sfn.IStateMachine,
  { function: summarizer, role }: PipelineFunction,
): Queue {
  const deadLetters = eventQueue(scope, 'DeadLetters', settings);
  // No queue names it as its dead-letter queue, which is how the rule recognizes one.
  acknowledge(deadLetters, { 'AwsSolutions-SQS3': 'This queue is the dead-letter queue.' });
  new Rule(scope, 'Rule', {
    ruleName: resourceNames(settings.STACK_PREFIX).replayStopRule,
    description: 'The execution of a replay was stopped or has failed',
    eventPattern: {
      source: ['aws.states'],
      detailType: ['Step Functions Execution Status Change'],
      detail: {
        // The complete ARN: children of the Map belong to a state machine whose ARN begins with it.
        stateMachineArn: [replay.stateMachineArn],
        status: ['ABORTED', 'TIMED_OUT', 'FAILED'],
      },
    },
    targets: [new LambdaFunction(summarizer, { ...DELIVERY, deadLetterQueue: deadLetters })],
  });
  // Lambda retries twice, after one and two minutes. The CDK's own destination would grant three actions.
  summarizer.configureAsyncInvoke({ onFailure: { bind: () => ({ destination: deadLetters.queueArn }) } });
  allow(role, { actions: ['sqs:SendMessage'], resources: [deadLetters.queueArn] });
  grantKey(role, deadLetters.encryptionMasterKey?.keyArn, 'sqs', 'both');
  return deadLetters;
}

/**
 * The states of a replay: PlanReplay → a Distributed Map over the shards of the schedule → SummarizeReplay, which starts a run of
 * the monitoring for the exchanges, and ends the MLflow run.
 *
 * A child of the Map waits until shortly before its shard is due; the shard itself follows the common clock.
 */
function replayStates(scope: Construct, functions: ReplayFunctions, workBucket: IBucket): sfn.IChainable {
  const start = new sfn.Pass(scope, 'Start', {
    comment: 'PlanReplay reads the input from the execution itself',
    // An error of planning or of a Map is added next to `run`.
    parameters: { summarize: { run: RUN } },
  });
  const plan = invoke(scope, 'PlanReplay', {
    lambda: functions.planner,
    comment: 'Makes a schedule of the captures, split into shards for one function each',
    payload: sfn.TaskInput.fromObject({ 'input.$': '$$.Execution.Input', run: RUN }),
    resultPath: '$.plan',
    retries: STORE_RETRIES,
  });
  const summarize = invoke(scope, 'SummarizeReplay', {
    lambda: functions.summarizer,
    comment: 'Adds up the results of the shards, names shards without a result, and ends the MLflow run',
    inputPath: '$.summarize',
    resultPath: '$.result',
    retries: STORE_RETRIES,
  });
  const map = shardsMap(scope, functions.replayer, workBucket);
  for (const state of [plan, map]) state.addCatch(summarize, { resultPath: '$.summarize.error' });
  map.next(summarize);
  plan.next(
    new sfn.Choice(scope, 'AnythingToSend', { comment: 'A dry run or a window without captures sends nothing' })
      .when(sfn.Condition.stringEquals('$.plan.outcome', 'planned'), map)
      .otherwise(summarize),
  );
  summarize.next(endBySummary(new sfn.Choice(scope, 'NothingMissing'), 'Replay'));
  return start.next(plan);
}

function shardsMap(scope: Construct, replayer: PipelineFunction, workBucket: IBucket): sfn.DistributedMap {
  const wait = new sfn.Wait(scope, 'UntilShardIsDue', {
    comment: 'However long it is, waiting is one state transition',
    time: sfn.WaitTime.timestampPath('$.waitUntil'),
  });
  const shard = invoke(scope, 'ReplayShard', {
    lambda: replayer,
    comment: 'Sends the requests of one shard, each at its time on the common clock',
    payload: sfn.TaskInput.fromObject({ 'run.$': '$.run', 'shard.$': '$.shard' }),
    retries: SHARD_RETRIES,
  });
  return overManifest(scope, 'ForEachShard', {
    workBucket,
    manifestKey: '$.plan.manifest.key',
    comment: 'Runs one child execution per shard; its input is its line of the manifest',
    // A waiting child occupies a slot too: with fewer slots than shards the last shards would start late.
    maxConcurrency: MAX_SHARDS,
    results: replayKeys.mapResultPrefix('{}'),
  }).itemProcessor(wait.next(shard));
}

// ------------------------------------------------------------------------------------------------------- functions

/**
 * One full vCPU. Lambda allocates CPU in proportion to memory, with one vCPU at 1,769 MB. A function with less is
 * paused for the rest of each time slice once it has used its share, and requests due in that time are sent late. A
 * second vCPU would be idle, because the sender's event loop is one thread. The process itself takes about 150 MB. That
 * leaves 1.6 GB for requests and replies in flight, for example 30 of 25 MB each with replies of the same size. The
 * later steps process a few at a time, with the same memory.
 */
export const ONE_VCPU_MB = 1769;

type ReplayFunctions = Record<'planner' | 'replayer' | 'summarizer', PipelineFunction>;

/** Creates the functions in a scope, and grants them the required permissions. */
function replayFunctions(scope: Construct, props: StackContext): ReplayFunctions {
  const { settings } = props;
  const make = (id: string, name: FunctionName, more: FunctionOptions = {}) =>
    new PipelineFunction(scope, id, name, {
      ...props,
      environment: { ...props.environment, ...replayEnvironment(settings) },
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
  const endpoints = settings.REPLAY_ENDPOINT_NAMES.map((name) => endpointArn(role, name));
  const components = componentArns(role, settings.REPLAY_INFERENCE_COMPONENT_NAMES);
  for (const resources of [endpoints, components])
    if (resources.length > 0) allow(role, { actions: INVOKE, resources });
  grantSecret(role, settings.REPLAY_HEADERS_SECRET_ARN);
}
