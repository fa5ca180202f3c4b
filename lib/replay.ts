/** Cloud replays: the functions, the state machine that a person starts, and the rule that ends stopped replays. */
import { Rule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import {
  Choice,
  Condition,
  type DistributedMap,
  Fail,
  type IChainable,
  type IStateMachine,
  Pass,
  Succeed,
  TaskInput,
  Wait,
  WaitTime,
} from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import { MAX_SHARDS } from '../src/core/contract/replay.ts';
import { replayKeys } from '../src/core/contract/work-keys.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow, grantKey } from './access/allow.ts';
import { acknowledge } from './acknowledge.ts';
import { DELIVERY, eventQueue } from './event-delivery.ts';
import type { PipelineFunction, StackContext } from './pipeline-function.ts';
import { type ReplayFunctions, replayFunctions } from './replay-functions.ts';
import { pipelineStateMachine, RUN } from './state-machines/pipeline.ts';
import { SHARD_RETRIES, STORE_RETRIES } from './state-machines/retries.ts';
import { invoke, overManifest } from './state-machines/states.ts';

/** @returns also the dead letters of replays that were stopped but could not be brought to their end */
export function cloudReplay(scope: Construct, context: StackContext, monitoring: IStateMachine) {
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
    manifests: ['replayManifest'],
    mapResults: ['replayMapResult'],
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
  replay: IStateMachine,
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
function replayStates(scope: Construct, functions: ReplayFunctions, workBucket: IBucket): IChainable {
  const start = new Pass(scope, 'Start', {
    comment: 'PlanReplay reads the input from the execution itself',
    // An error of planning or of a Map is added next to `run`.
    parameters: { summarize: { run: RUN } },
  });
  const plan = invoke(scope, 'PlanReplay', {
    lambda: functions.planner,
    comment: 'Makes a schedule of the captures, split into shards for one function each',
    payload: TaskInput.fromObject({ 'input.$': '$$.Execution.Input', run: RUN }),
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
    new Choice(scope, 'AnythingToSend', { comment: 'A dry run or a window without captures sends nothing' })
      .when(Condition.stringEquals('$.plan.outcome', 'planned'), map)
      .otherwise(summarize),
  );
  summarize.next(
    new Choice(scope, 'NothingMissing')
      .when(
        Condition.booleanEquals('$.result.ok', true),
        new Succeed(scope, 'ReplaySucceeded', { outputPath: '$.result' }),
      )
      .otherwise(new Fail(scope, 'ReplayFailed', { errorPath: '$.result.error', causePath: '$.result.cause' })),
  );
  return start.next(plan);
}

function shardsMap(scope: Construct, replayer: PipelineFunction, workBucket: IBucket): DistributedMap {
  const wait = new Wait(scope, 'UntilShardIsDue', {
    comment: 'However long it is, waiting is one state transition',
    time: WaitTime.timestampPath('$.waitUntil'),
  });
  const shard = invoke(scope, 'ReplayShard', {
    lambda: replayer,
    comment: 'Sends the requests of one shard, each at its time on the common clock',
    payload: TaskInput.fromObject({ 'run.$': '$.run', 'shard.$': '$.shard' }),
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
