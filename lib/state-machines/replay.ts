/**
 * The state machine of replays, started by a person: PlanReplay → a Distributed Map over the shards of the schedule →
 * SummarizeReplay, which starts a run of the monitoring for the exchanges → PublishReplay.
 *
 * A child of the Map waits until shortly before its shard is due; the shard itself follows the common clock.
 */
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import {
  Choice,
  Condition,
  type DistributedMap,
  Fail,
  type IChainable,
  JsonPath,
  Pass,
  type StateMachine,
  Succeed,
  TaskInput,
  type TaskStateBase,
  Wait,
  WaitTime,
} from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { MAX_SHARDS } from '../../src/core/contract/replay.ts';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import type { ReplayFunctions } from '../replay-functions.ts';
import { pipelineStateMachine, RUN } from './pipeline.ts';
import { SHARD_RETRIES, STORE_RETRIES } from './retries.ts';
import { invoke, overManifest } from './states.ts';

interface ReplayStateMachineProps extends Omit<ReplayFunctions, 'stopper'> {
  settings: Settings;
  workBucket: IBucket;
}

export class ReplayStateMachine extends Construct {
  readonly stateMachine: StateMachine;

  constructor(scope: Construct, id: string, props: ReplayStateMachineProps) {
    super(scope, id);
    this.stateMachine = pipelineStateMachine(this, {
      settings: props.settings,
      name: 'replayStateMachine',
      comment: 'Sends captured traffic to another endpoint, with its captured timing',
      workBucket: props.workBucket,
      functions: [props.planner, props.replayer, props.summarizer, props.publisher],
      manifests: ['replayManifest'],
      mapResults: ['replayMapResult'],
      definition: this.#definition(props),
    });
  }

  #definition(props: ReplayStateMachineProps): IChainable {
    const start = new Pass(this, 'Start', {
      comment: 'PlanReplay reads the input from the execution itself',
      // An error of planning or of a Map is added next to `run`.
      parameters: { summarize: { run: RUN } },
    });
    const plan = invoke(this, 'PlanReplay', {
      lambda: props.planner,
      comment: 'Makes a schedule of the captures, split into shards for one function each',
      payload: TaskInput.fromObject({ 'input.$': '$$.Execution.Input', run: RUN }),
      resultPath: '$.plan',
      retries: STORE_RETRIES,
    });
    const summarize = invoke(this, 'SummarizeReplay', {
      lambda: props.summarizer,
      comment: 'Merges the results of the shards into one result set, and names shards without a result',
      inputPath: '$.summarize',
      resultPath: '$.result',
      retries: STORE_RETRIES,
    });
    const map = this.#shards(props);
    for (const state of [plan, map]) state.addCatch(summarize, { resultPath: '$.summarize.error' });
    map.next(summarize);
    plan.next(
      new Choice(this, 'AnythingToSend', { comment: 'A dry run or a window without captures sends nothing' })
        .when(Condition.stringEquals('$.plan.outcome', 'planned'), map)
        .otherwise(summarize),
    );
    this.#end(summarize, props);
    return start.next(plan);
  }

  /** The states after the summary: the MLflow run is published, or ended without results if a step before failed permanently. */
  #end(summarize: TaskStateBase, { publisher }: ReplayStateMachineProps): void {
    const isWhole = Condition.booleanEquals('$.result.ok', true);
    const failed = new Fail(this, 'ReplayFailed', { errorPath: '$.result.error', causePath: '$.result.cause' });
    const succeeded = new Succeed(this, 'ReplaySucceeded', { outputPath: '$.result' });
    const unfinished = new Choice(this, 'NothingElseMissing', {
      comment: 'Missing requests matter more than their MLflow run',
    })
      .when(Condition.and(Condition.isPresent('$.result.ok'), Condition.booleanEquals('$.result.ok', false)), failed)
      .otherwise(
        new Fail(this, 'ReplayUnfinished', { errorPath: '$.unfinished.Error', causePath: '$.unfinished.Cause' }),
      );
    const end = invoke(this, 'EndReplayRun', {
      lambda: publisher,
      comment: 'Ends the MLflow run as failed, or as killed if the replay was stopped, with the reason',
      // If there is no plan, the run is found by the input.
      payload: TaskInput.fromObject({ run: RUN, 'unfinished.$': '$.unfinished', 'input.$': '$$.Execution.Input' }),
      resultPath: JsonPath.DISCARD,
      retries: STORE_RETRIES,
    });
    end.addCatch(unfinished, { resultPath: '$.unended' }).next(unfinished);
    summarize.addCatch(end, { resultPath: '$.unfinished' });
    // A failure fails the execution, but its results exist.
    const publication = invoke(this, 'PublishReplay', {
      lambda: publisher,
      comment: 'Adds figures and files to the MLflow run, and ends it',
      payload: TaskInput.fromObject({ run: RUN }),
      resultPath: '$.result.mlflow',
      retries: STORE_RETRIES,
    });
    publication
      .addCatch(end, { resultPath: '$.unfinished' })
      .next(new Choice(this, 'NothingMissing').when(isWhole, succeeded).otherwise(failed));
    summarize.next(
      new Choice(this, 'PublicationWanted', { comment: 'If planning has created an MLflow run, whatever the result' })
        .when(Condition.booleanEquals('$.result.publish', true), publication)
        .when(isWhole, succeeded)
        .otherwise(
          new Pass(this, 'NothingToPublish', {
            comment: 'Planning may have crashed after it created a run, or its plan may be missing',
            parameters: { 'Error.$': '$.result.error', 'Cause.$': '$.result.cause' },
            resultPath: '$.unfinished',
          }).next(end),
        ),
    );
  }

  #shards(props: ReplayStateMachineProps): DistributedMap {
    const wait = new Wait(this, 'UntilShardIsDue', {
      comment: 'However long it is, waiting is one state transition',
      time: WaitTime.timestampPath('$.waitUntil'),
    });
    const shard = invoke(this, 'ReplayShard', {
      lambda: props.replayer,
      comment: 'Sends the requests of one shard, each at its time on the common clock',
      payload: TaskInput.fromObject({ 'run.$': '$.run', 'shard.$': '$.shard' }),
      retries: SHARD_RETRIES,
    });
    return overManifest(this, 'ForEachShard', {
      workBucket: props.workBucket,
      manifestKey: '$.plan.manifest.key',
      comment: 'Runs one child execution per shard; its input is its line of the manifest',
      // A waiting child occupies a slot too: with fewer slots than shards the last shards would start late.
      maxConcurrency: MAX_SHARDS,
      results: replayKeys.mapResultPrefix('{}'),
    }).itemProcessor(wait.next(shard));
  }
}
