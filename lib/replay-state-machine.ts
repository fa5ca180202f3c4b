/**
 * The state machine of a replay, started by a person: PlanReplay → a Distributed Map over the shards of the schedule →
 * SummarizeReplay. A child waits until shortly before its shard is due; the shard itself keeps to the common clock.
 */
import { Duration } from 'aws-cdk-lib';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import {
  Choice,
  Condition,
  DistributedMap,
  Fail,
  type IChainable,
  JsonPath,
  Pass,
  ResultWriterV2,
  S3JsonLItemReader,
  type StateMachine,
  StateMachineType,
  Succeed,
  TaskInput,
  Timeout,
  Wait,
  WaitTime,
} from 'aws-cdk-lib/aws-stepfunctions';
import { LambdaInvoke } from 'aws-cdk-lib/aws-stepfunctions-tasks';
import { Construct } from 'constructs';
import { resourceNames } from '../lambda/contract.ts';
import { MAX_SHARDS, REPLAYER_TIMEOUT_SECONDS, replayKeys } from '../lambda/replay-contract.ts';
import { pipelineStateMachine, RUN } from './pipeline-state-machine.ts';
import { BEGIN_RETRIES, STORE_RETRIES, withRetries } from './retries.ts';
import type { Settings } from './settings.ts';

export interface ReplayStateMachineProps {
  settings: Settings;
  workBucket: IBucket;
  planner: IFunction;
  replayer: IFunction;
  summarizer: IFunction;
}

/** Beside the function's own limit, which is so the one that is seen. */
const TASK_TIMEOUT = Duration.seconds(REPLAYER_TIMEOUT_SECONDS + 60);

export class ReplayStateMachine extends Construct {
  readonly stateMachine: StateMachine;

  constructor(scope: Construct, id: string, props: ReplayStateMachineProps) {
    super(scope, id);
    const names = resourceNames(props.settings.STACK_PREFIX);
    this.stateMachine = pipelineStateMachine(this, {
      settings: props.settings,
      stateMachineName: names.replayStateMachine,
      logGroupName: names.replayStateMachineLogGroup,
      comment: 'Captured traffic against another endpoint, with its own timing',
      workBucket: props.workBucket,
      functions: [props.planner, props.replayer, props.summarizer],
      manifests: ['replayManifest'],
      mapResults: ['replayMapResult'],
      definition: this.#definition(props),
    });
  }

  #definition(props: ReplayStateMachineProps): IChainable {
    const start = new Pass(this, 'Start', {
      comment: 'Whatever the input is, planning reads it from the execution itself',
      // What stops planning or the Map is put beside `run`.
      parameters: { summarize: { run: RUN } },
    });
    const plan = withRetries(
      new LambdaInvoke(this, 'PlanReplay', {
        lambdaFunction: props.planner,
        comment: 'The captures to a schedule, cut into shards that one function each can send',
        payload: TaskInput.fromObject({ 'input.$': '$$.Execution.Input', run: RUN }),
        payloadResponseOnly: true,
        retryOnServiceExceptions: false,
        resultPath: '$.plan',
      }),
      STORE_RETRIES,
    );
    const summarize = withRetries(
      new LambdaInvoke(this, 'SummarizeReplay', {
        lambdaFunction: props.summarizer,
        comment: 'What the shards measured to one result set; shards without a result are named',
        inputPath: '$.summarize',
        payloadResponseOnly: true,
        retryOnServiceExceptions: false,
        resultPath: '$.result',
      }),
      STORE_RETRIES,
    );
    const map = this.#map(props);
    plan.addCatch(summarize, { resultPath: '$.summarize.error' });
    map.addCatch(summarize, { resultPath: '$.summarize.error' });
    map.next(summarize);
    plan.next(
      new Choice(this, 'AnythingToSend', { comment: 'A dry run sends nothing, nor does a window without captures' })
        .when(Condition.stringEquals('$.plan.outcome', 'planned'), map)
        .otherwise(summarize),
    );
    summarize.next(
      new Choice(this, 'NothingMissing')
        .when(
          Condition.booleanEquals('$.result.ok', true),
          new Succeed(this, 'ReplaySucceeded', { outputPath: '$.result' }),
        )
        .otherwise(new Fail(this, 'ReplayFailed', { errorPath: '$.result.error', causePath: '$.result.cause' })),
    );
    return start.next(plan);
  }

  #map({ workBucket, replayer }: ReplayStateMachineProps): DistributedMap {
    const wait = new Wait(this, 'UntilShardIsDue', {
      comment: 'Nothing is paid for by the hour while a shard waits',
      time: WaitTime.timestampPath('$.waitUntil'),
    });
    const shard = withRetries(
      new LambdaInvoke(this, 'ReplayShard', {
        lambdaFunction: replayer,
        comment: 'The requests of one shard, each at its moment of the common clock',
        payload: TaskInput.fromObject({ 'run.$': '$.run', 'shard.$': '$.shard' }),
        payloadResponseOnly: true,
        retryOnServiceExceptions: false,
        taskTimeout: Timeout.duration(TASK_TIMEOUT),
      }),
      BEGIN_RETRIES,
    );
    return new DistributedMap(this, 'ForEachShard', {
      comment: 'One child execution per shard; its input is its line of the manifest',
      mapExecutionType: StateMachineType.STANDARD,
      // A child that waits holds a place too: with fewer places than shards the last ones would begin late.
      maxConcurrency: MAX_SHARDS,
      // One lost shard stops no other: SummarizeReplay finds that its result is missing.
      toleratedFailurePercentage: 100,
      itemReader: new S3JsonLItemReader({ bucket: workBucket, key: JsonPath.stringAt('$.plan.manifest.key') }),
      resultWriterV2: new ResultWriterV2({
        bucket: workBucket,
        prefix: JsonPath.format(replayKeys.mapResultPrefix('{}'), JsonPath.stringAt('$$.Execution.Name')),
      }),
      resultPath: JsonPath.DISCARD,
    }).itemProcessor(wait.next(shard));
  }
}
