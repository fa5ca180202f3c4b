/**
 * The state machine of a replay, started by a person: PlanReplay → a Distributed Map over the shards of the schedule →
 * where it is wanted a second one over the same shards, for MLflow and the judge → SummarizeReplay → PublishReplay.
 *
 * A child of the first waits until shortly before its shard is due; the shard itself keeps to the common clock. Nothing of
 * the second runs while requests are being sent.
 */
import { Duration } from 'aws-cdk-lib';
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
  Timeout,
  Wait,
  WaitTime,
} from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../../src/contract/names.ts';
import { MAX_SHARDS, REPLAYER_TIMEOUT_SECONDS } from '../../src/contract/replay.ts';
import { replayKeys } from '../../src/contract/work-keys.ts';
import type { Settings } from '../../src/settings/schema.ts';
import type { ReplayFunctions } from '../replay-functions.ts';
import { pipelineStateMachine, RUN } from './pipeline.ts';
import { BEGIN_RETRIES, JUDGE_RETRIES, STORE_RETRIES } from './retries.ts';
import { invoke, overManifest } from './states.ts';

interface ReplayStateMachineProps extends Omit<ReplayFunctions, 'stopper'> {
  settings: Settings;
  workBucket: IBucket;
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
      functions: [props.planner, props.replayer, props.evaluator, props.summarizer, props.publisher],
      manifests: ['replayManifest'],
      mapResults: ['replayMapResult', 'replayEvaluationMapResult'],
      definition: this.#definition(props),
    });
  }

  #definition(props: ReplayStateMachineProps): IChainable {
    const start = new Pass(this, 'Start', {
      comment: 'Whatever the input is, planning reads it from the execution itself',
      // What stops planning or the Map is put beside `run`.
      parameters: { summarize: { run: RUN } },
    });
    const plan = invoke(this, 'PlanReplay', {
      lambda: props.planner,
      comment: 'The captures to a schedule, cut into shards that one function each can send',
      payload: TaskInput.fromObject({ 'input.$': '$$.Execution.Input', run: RUN }),
      resultPath: '$.plan',
      retries: STORE_RETRIES,
    });
    const summarize = invoke(this, 'SummarizeReplay', {
      lambda: props.summarizer,
      comment: 'What the shards measured to one result set; shards without a result are named',
      inputPath: '$.summarize',
      resultPath: '$.result',
      retries: STORE_RETRIES,
    });
    const map = this.#shards(props);
    const evaluation = this.#evaluation(props);
    for (const state of [plan, map, evaluation]) state.addCatch(summarize, { resultPath: '$.summarize.error' });
    map.next(
      new Choice(this, 'EvaluationWanted', { comment: 'The judge, or traces in MLflow' })
        .when(Condition.booleanEquals('$.plan.evaluate', true), evaluation.next(summarize))
        .otherwise(summarize),
    );
    plan.next(
      new Choice(this, 'AnythingToSend', { comment: 'A dry run sends nothing, nor does a window without captures' })
        .when(Condition.stringEquals('$.plan.outcome', 'planned'), map)
        .otherwise(summarize),
    );
    this.#end(summarize, props);
    return start.next(plan);
  }

  /** From the summary on: the run in MLflow is published, or ends without. */
  #end(summarize: TaskStateBase, props: ReplayStateMachineProps): void {
    const isWhole = Condition.booleanEquals('$.result.ok', true);
    const failed = new Fail(this, 'ReplayFailed', { errorPath: '$.result.error', causePath: '$.result.cause' });
    const succeeded = new Succeed(this, 'ReplaySucceeded', { outputPath: '$.result' });
    const unfinished = new Choice(this, 'NothingElseMissing', {
      comment: 'Requests that are missing weigh more than their run in MLflow',
    })
      .when(Condition.and(Condition.isPresent('$.result.ok'), Condition.booleanEquals('$.result.ok', false)), failed)
      .otherwise(
        new Fail(this, 'ReplayUnfinished', { errorPath: '$.unfinished.Error', causePath: '$.unfinished.Cause' }),
      );
    const end = this.#endOfRun(props);
    end.addCatch(unfinished, { resultPath: '$.unended' }).next(unfinished);
    summarize.addCatch(end, { resultPath: '$.unfinished' });
    const publication = this.#publication(props);
    publication
      .addCatch(end, { resultPath: '$.unfinished' })
      .next(new Choice(this, 'NothingMissing').when(isWhole, succeeded).otherwise(failed));
    summarize.next(
      new Choice(this, 'PublicationWanted', { comment: 'A run in MLflow that planning has made, whatever came of it' })
        .when(Condition.booleanEquals('$.result.publish', true), publication)
        .when(isWhole, succeeded)
        .otherwise(
          new Pass(this, 'NothingToPublish', {
            comment: 'Planning may have died after it had made a run, or its plan may be gone',
            parameters: { 'Error.$': '$.result.error', 'Cause.$': '$.result.cause' },
            resultPath: '$.unfinished',
          }).next(end),
        ),
    );
  }

  #shards(props: ReplayStateMachineProps): DistributedMap {
    const wait = new Wait(this, 'UntilShardIsDue', {
      comment: 'Nothing is paid for by the hour while a shard waits',
      time: WaitTime.timestampPath('$.waitUntil'),
    });
    const shard = invoke(this, 'ReplayShard', {
      lambda: props.replayer,
      comment: 'The requests of one shard, each at its moment of the common clock',
      ...this.#shardTask(),
      retries: BEGIN_RETRIES,
    });
    return overManifest(this, 'ForEachShard', {
      workBucket: props.workBucket,
      manifestKey: '$.plan.manifest.key',
      comment: 'One child execution per shard; its input is its line of the manifest',
      // A child that waits holds a place too: with fewer places than shards the last ones would begin late.
      maxConcurrency: MAX_SHARDS,
      results: replayKeys.mapResultPrefix('{}'),
    }).itemProcessor(wait.next(shard));
  }

  /** The shards once more: their exchanges to traces, and their replies to the judge. */
  #evaluation(props: ReplayStateMachineProps): DistributedMap {
    const evaluate = invoke(this, 'EvaluateReplay', {
      lambda: props.evaluator,
      comment: 'What a shard has sent and got to traces, and its replies to the judge, as far as the time goes',
      ...this.#shardTask(),
      resultPath: '$.evaluated',
      retries: JUDGE_RETRIES,
    });
    const whole = new Choice(this, 'ShardEvaluated', { comment: 'It goes on where it has left off' })
      .when(Condition.booleanEquals('$.evaluated.done', true), new Succeed(this, 'ShardDone'))
      .otherwise(evaluate);
    return overManifest(this, 'ForEachReplayedShard', {
      workBucket: props.workBucket,
      manifestKey: '$.plan.manifest.key',
      comment:
        'Over the same manifest, once all requests are sent: the judge and MLflow are shared with the monitoring',
      maxConcurrency: props.settings.MAX_CONCURRENCY,
      results: replayKeys.evaluationMapResultPrefix('{}'),
    }).itemProcessor(evaluate.next(whole));
  }

  /** The run in MLflow gets its figures and files, and ends. What fails here fails the execution: its results are there. */
  #publication({ publisher }: ReplayStateMachineProps): TaskStateBase {
    return invoke(this, 'PublishReplay', {
      lambda: publisher,
      comment: 'Figures and files to the run in MLflow, and its end',
      payload: TaskInput.fromObject({ run: RUN }),
      taskTimeout: Timeout.duration(TASK_TIMEOUT),
      resultPath: '$.result.mlflow',
      retries: STORE_RETRIES,
    });
  }

  /** No run in MLflow stays open because a step before its end has failed for good. */
  #endOfRun({ publisher }: ReplayStateMachineProps): TaskStateBase {
    return invoke(this, 'EndReplayRun', {
      lambda: publisher,
      comment: 'The run in MLflow ends as failed, or as killed where the replay was stopped, and says why',
      payload: TaskInput.fromObject({
        run: RUN,
        'unfinished.$': '$.unfinished',
        // Where there is no plan, the run is found by what was asked for.
        'input.$': '$$.Execution.Input',
      }),
      taskTimeout: Timeout.duration(TASK_TIMEOUT),
      resultPath: JsonPath.DISCARD,
      retries: STORE_RETRIES,
    });
  }

  /** A function that gets one shard. */
  #shardTask() {
    return {
      payload: TaskInput.fromObject({ 'run.$': '$.run', 'shard.$': '$.shard' }),
      taskTimeout: Timeout.duration(TASK_TIMEOUT),
    };
  }
}
