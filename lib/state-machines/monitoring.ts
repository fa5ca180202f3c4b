/**
 * The state machine of monitoring runs: PlanCaptures → a Distributed Map over the manifest → SummarizeRun. A long backfill
 * runs in parts, each while the next one is planned.
 *
 * It uses JSONPath throughout. The state stays small, since it contains no results of children and no payloads.
 */
import * as sfn from 'aws-cdk-lib/aws-stepfunctions';
import type { LambdaInvoke } from 'aws-cdk-lib/aws-stepfunctions-tasks';
import { Construct } from 'constructs';
import { MOST_KILLS } from '../../src/core/contract/execution.ts';
import type { BatchPhase } from '../../src/core/contract/payloads.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import type { MonitoringFunctions } from '../monitoring-functions.ts';
import type { StackContext } from '../pipeline-function.ts';
import { batchStates } from './batch.ts';
import { pipelineStateMachine, RUN } from './pipeline.ts';
import { EVALUATE_CHUNK_RETRIES, LAMBDA_ENDED_ERRORS, LOG_CHUNK_RETRIES, STORE_RETRIES } from './retries.ts';
import { endBySummary, type Invocation, invoke, type MAPS, overManifest } from './states.ts';

type MonitoringStateMachineProps = MonitoringFunctions & Pick<StackContext, 'settings' | 'workBucket'>;

/** Paths at which the states of a chunk find their input. */
interface ChunkPlace {
  isChild: boolean;
  /** Suffix of the names of the states, because a name can be used only once in a state machine. */
  ending: string;
  run: string;
  chunk: string;
  options: string;
}

/** For a child of a Map: its input comes from the Map's item selector. */
const childOf = <Ending extends string>(ending: Ending) =>
  ({ isChild: true, ending, run: '$.run', chunk: '$.chunk', options: '$.options' }) as const;

/** The only chunk of a run. */
const ALONE: ChunkPlace = {
  isChild: false,
  ending: 'OnlyChunk',
  run: '$$.Execution.Name',
  chunk: '$.plan.chunk',
  options: '$.plan.options',
};

const isOnlyTraced = ({ options }: ChunkPlace): sfn.Condition =>
  sfn.Condition.booleanEquals(`${options}.evaluate`, false);
const isInBatch = ({ options }: ChunkPlace): sfn.Condition => sfn.Condition.stringEquals(`${options}.judge`, 'batch');

export class MonitoringStateMachine extends Construct {
  readonly stateMachine: sfn.StateMachine;
  readonly #props: MonitoringStateMachineProps;

  constructor(scope: Construct, id: string, props: MonitoringStateMachineProps) {
    super(scope, id);
    this.#props = props;
    this.stateMachine = pipelineStateMachine(this, {
      settings: props.settings,
      name: 'stateMachine',
      comment: 'Makes traces and verdicts in MLflow from capture lines',
      workBucket: props.workBucket,
      functions: [props.planner, props.processor, props.evaluator, props.batcher, props.summarizer],
      maps: { manifests: ['manifest', 'batchManifest'], results: ['mapResult', 'batchMapResult'] },
      definition: this.#definition(),
    });
  }

  #definition(): sfn.IChainable {
    const start = new sfn.Pass(this, 'Start', {
      comment: 'PlanCaptures reads the input from the execution itself',
      parameters: {
        plan: { nextPart: 0, nextChunk: 0, cursor: '' },
        error: { Error: '', Cause: '' },
        result: { part: 0 },
        progress: { kills: 0 },
      },
    });
    const plan = this.#plan('');
    const summarize = invoke(this, 'SummarizeRun', {
      lambda: this.#props.summarizer,
      comment: 'Makes summary.json and metrics from the receipts of all chunks',
      payload: sfn.TaskInput.fromObject({ run: RUN, 'error.$': '$.error', 'part.$': '$.result.part' }),
      resultPath: '$.result',
      retries: STORE_RETRIES,
    });

    const map = this.#chunks('');
    const wantsBatch = sfn.Condition.and(
      sfn.Condition.stringEquals('$.plan.options.judge', 'batch'),
      sfn.Condition.booleanEquals('$.plan.options.evaluate', true),
      sfn.Condition.booleanEquals('$.plan.options.dryRun', false),
    );
    const batch = this.#batch(summarize);
    // The state machine has one end: errors of planning or the Map go to the summary, which fails the execution. Chunks
    // that were already prepared are asked and traced first.
    const stopped = new sfn.Choice(this, 'PartsFailed', { comment: 'The plan of an earlier part has the options' })
      .when(sfn.Condition.and(sfn.Condition.isPresent('$.plan.options'), wantsBatch), batch)
      .otherwise(summarize);
    plan.addCatch(stopped, { resultPath: '$.error' });
    map.addCatch(stopped, { resultPath: '$.error' });

    const more = new sfn.Choice(this, 'MoreParts', { comment: 'A long backfill is planned and run in parts' })
      .when(sfn.Condition.booleanEquals('$.plan.more', true), plan)
      .when(wantsBatch, batch)
      .otherwise(summarize);
    map.next(more);
    // The only chunk of a run needs no Map. If it fails, its results are missing in the work bucket, and the summary
    // reports them.
    const alone = this.#chunk(ALONE, { traced: summarize, prepared: batch });
    const isAlone = sfn.Condition.isPresent(ALONE.chunk);
    const andPlan = this.#runAndPlan();
    const planned = new sfn.Choice(this, 'AnythingPlanned')
      .when(sfn.Condition.and(isAlone, isOnlyTraced(ALONE)), alone.log)
      .when(sfn.Condition.and(isAlone, isInBatch(ALONE)), alone.prepare)
      .when(isAlone, alone.evaluate)
      .when(sfn.Condition.not(sfn.Condition.stringEquals('$.plan.outcome', 'planned')), more)
      .when(sfn.Condition.booleanEquals('$.plan.more', true), andPlan)
      .otherwise(map);
    const nextPlanned = new sfn.Choice(this, 'NextPartPlanned')
      .when(sfn.Condition.stringEquals('$.error.Error', ''), planned)
      .otherwise(stopped);
    andPlan.addCatch(stopped, { resultPath: '$.error' }).next(nextPlanned);
    const outcome = new sfn.Choice(this, 'NothingMissing');
    outcome.when(sfn.Condition.booleanEquals('$.result.more', true), summarize);
    summarize.next(endBySummary(outcome, 'Run'));
    plan.next(planned);
    return start.next(plan);
  }

  #plan(ending: '' | 'OfPart'): LambdaInvoke {
    return invoke(this, `PlanCaptures${ending}`, {
      lambda: this.#props.planner,
      comment: 'Makes a manifest of byte ranges from the input; one part of a long backfill at a time',
      payload: sfn.TaskInput.fromObject({
        'input.$': '$$.Execution.Input',
        run: RUN,
        'part.$': '$.plan.nextPart',
        'attempt.$': '$$.State.RetryCount',
        'nextChunk.$': '$.plan.nextChunk',
        'cursor.$': '$.plan.cursor',
      }),
      resultPath: '$.plan',
      retries: STORE_RETRIES,
    });
  }

  #chunks(ending: '' | 'OfPart'): sfn.DistributedMap {
    return this.#distributedMap(`ForEachChunk${ending}`, {
      comment: 'Runs one child execution per chunk of capture lines',
      manifestKey: '$.plan.manifest.key',
      results: workKeys.mapResultPrefix('{}'),
    }).itemProcessor(this.#child(childOf(ending)));
  }

  /**
   * Continues with the result of planning when both have ended. If the Map fails, so does this state. If planning fails, the Map
   * continues, and `$.error` of the output is the failure.
   */
  #runAndPlan(): sfn.Parallel {
    const plan = this.#plan('OfPart');
    plan.addCatch(new sfn.Pass(this, 'PlanCapturesFailedOfPart'), { resultPath: '$.error' });
    return new sfn.Parallel(this, 'RunAndPlan', {
      comment: 'Runs the chunks of a part while the next part is planned',
      outputPath: '$[1]',
    }).branch(this.#chunks('OfPart'), plan);
  }

  #batch(summarize: sfn.TaskStateBase): sfn.TaskStateBase {
    const applied = new sfn.Succeed(this, 'AnswersApplied');
    const answered = this.#distributedMap('ForEachAnsweredChunk', {
      comment: 'Makes traces with assessments from the answers of the batch jobs',
      manifestKey: '$.batch.manifest.key',
      results: workKeys.batchMapResultPrefix('{}'),
    }).itemProcessor(this.#evaluation('ApplyBatch', childOf(''), applied, 'apply'));
    return batchStates(this, this.#props, answered, summarize);
  }

  #distributedMap(
    id: (typeof MAPS.monitoring)[number],
    manifest: { comment: string; manifestKey: string; results: string },
  ): sfn.DistributedMap {
    return overManifest(this, id, {
      ...manifest,
      workBucket: this.#props.workBucket,
      maxConcurrency: this.#props.settings.MAX_FUNCTIONS,
      itemSelector: {
        'run.$': '$$.Execution.Name',
        'options.$': '$.plan.options',
        'chunk.$': '$$.Map.Item.Value',
        progress: { kills: 0 },
      },
    });
  }

  /** The states of a child of the Map. */
  #child(place: ChunkPlace): sfn.IChainable {
    const done = new sfn.Succeed(this, `ChunkDone${place.ending}`);
    const { log, prepare, evaluate } = this.#chunk(place, { traced: done, prepared: done });
    return new sfn.Choice(this, `EvaluationWanted${place.ending}`)
      .when(isOnlyTraced(place), log)
      .when(isInBatch(place), prepare)
      .otherwise(evaluate);
  }

  /** Returns the first states of each outcome of a chunk. @param done the states that follow */
  #chunk(place: ChunkPlace, done: { traced: sfn.State; prepared: sfn.State }) {
    const log = this.#chunkTask('LogTraces', place, {
      lambda: this.#props.processor,
      comment: 'Makes traces from capture lines, and quarantines lines that are not capture records',
      retries: LOG_CHUNK_RETRIES,
    });
    return {
      log: this.#untilDone(log, place, done.traced),
      prepare: this.#evaluation('PrepareBatch', place, done.prepared, 'prepare'),
      evaluate: this.#evaluation('EvaluateTraces', place, done.traced),
    };
  }

  /** The evaluator: completely, or one phase of batch inference. */
  #evaluation(id: string, place: ChunkPlace, done: sfn.State, phase?: BatchPhase): sfn.IChainable {
    const comments = {
      prepare: 'Writes the judge’s requests to the input of a batch job',
      apply: 'Makes traces with assessments from the answers of the batch jobs',
    };
    const comment = phase ? comments[phase] : 'Has captures judged, and makes traces with their assessments';
    const work = { lambda: this.#props.evaluator, comment, retries: EVALUATE_CHUNK_RETRIES };
    return this.#untilDone(this.#chunkTask(id, place, work, phase), place, done);
  }

  /**
   * Returns to the task until the chunk is done. If the function is killed, the next invocation looks for the line that does it
   * (src/monitoring/chunk/line-at-work.ts). A failed child of the Map does not fail the run.
   */
  #untilDone(task: LambdaInvoke, { isChild }: ChunkPlace, done: sfn.State): sfn.IChainable {
    const failed = isChild
      ? new sfn.Fail(this, `${task.id}Failed`, { errorPath: '$.killed.Error', causePath: '$.killed.Cause' })
      : done;
    const killed = new sfn.Pass(this, `${task.id}Killed`, {
      comment: 'The next invocation takes the lines one after the other',
      parameters: { kills: sfn.JsonPath.mathAdd(sfn.JsonPath.numberAt('$.progress.kills'), 1) },
      resultPath: '$.progress',
    });
    killed.next(
      new sfn.Choice(this, `${task.id}Again`, { comment: 'A function that is killed too often fails the chunk' })
        .when(sfn.Condition.numberLessThanEquals('$.progress.kills', MOST_KILLS), task)
        .otherwise(failed),
    );
    task.addCatch(killed, { errors: LAMBDA_ENDED_ERRORS, resultPath: '$.killed' });
    if (!isChild) task.addCatch(done, { resultPath: '$.failed' });
    // The stack has no room for the chunk, or the judge is paused. A round of waiting is paid, its length is not.
    const wait = new sfn.Wait(this, `${task.id}Waits`, { time: sfn.WaitTime.secondsPath('$.progress.waitSeconds') });
    const next = new sfn.Choice(this, `${task.id}Done`)
      .when(sfn.Condition.numberGreaterThan('$.progress.waitSeconds', 0), wait.next(task))
      .otherwise(done);
    return task.next(next);
  }

  /** The task of a function that processes one chunk. */
  #chunkTask(
    id: string,
    place: ChunkPlace,
    work: Pick<Invocation, 'lambda' | 'comment' | 'retries'>,
    phase?: BatchPhase,
  ): LambdaInvoke {
    return invoke(this, `${id}${place.ending}`, {
      ...work,
      payload: sfn.TaskInput.fromObject({
        'run.$': place.run,
        'chunk.$': place.chunk,
        'options.$': place.options,
        'attempt.$': '$$.State.RetryCount',
        'progress.$': '$.progress',
        phase,
      }),
      resultPath: '$.progress',
    });
  }
}
