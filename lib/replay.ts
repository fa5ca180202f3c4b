/** Replays on demand: six functions, the state machine that a person starts, and the rule that ends what was stopped. */
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../src/contract/names.ts';
import { REPLAY_DISK_MIB, REPLAYER_TIMEOUT_SECONDS } from '../src/contract/replay.ts';
import type { Settings } from '../src/settings/schema.ts';
import { grantCaptureRead } from './access/capture.ts';
import { grantJudge, grantModelLookUp } from './access/judge.ts';
import { grantArtifacts, grantMlflow } from './access/mlflow.ts';
import { grantReplayTargets } from './access/replay.ts';
import { grantWork } from './access/work.ts';
import { grantBudget } from './budget-table.ts';
import { PipelineFunction, type PipelineFunctionProps } from './pipeline-function.ts';
import { ReplayStop } from './replay-stop.ts';
import { replayEnvironment } from './settings/function-environment.ts';
import { ReplayStateMachine } from './state-machines/replay.ts';

/**
 * One whole vCPU: Lambda gives CPU in proportion to memory, one vCPU at 1,769 MB. A function with less is stopped for the
 * rest of each time slice once it has used its share, and what was due in that time is sent late; a second vCPU would
 * wait for a sender whose event loop is one thread. The process itself takes some 150 MB: 1.6 GB are left for requests
 * and replies under way, such as 30 of 25 MB each with replies of the same size. What works through them afterwards takes
 * a few at a time, and is left as much for them.
 */
export const ONE_VCPU_MB = 1769;

interface ReplayProps {
  settings: Settings;
  workBucket: IBucket;
  /** What the judge may spend, of the monitoring and of replays together. */
  budget: ITableV2;
  /** What all functions of the stack get. */
  environment: Record<string, string>;
}

export class Replay extends Construct {
  readonly stateMachine: StateMachine;
  readonly planner: PipelineFunction;
  readonly replayer: PipelineFunction;
  readonly evaluator: PipelineFunction;
  readonly summarizer: PipelineFunction;
  readonly publisher: PipelineFunction;
  readonly stopper: PipelineFunction;
  /** What was stopped, and could not be brought to its end. */
  readonly notEnded: IQueue;

  constructor(scope: Construct, id: string, props: ReplayProps) {
    super(scope, id);
    const { settings, workBucket, environment } = props;
    const names = resourceNames(settings.STACK_PREFIX);
    const make = (id: string, props: Omit<PipelineFunctionProps, 'settings' | 'environment'>) =>
      new PipelineFunction(this, id, {
        settings,
        environment: { ...environment, ...replayEnvironment(settings) },
        // A person who has given the other functions more has large payloads.
        memoryMb: Math.max(ONE_VCPU_MB, settings.LAMBDA_MEMORY_MB),
        timeoutSeconds: REPLAYER_TIMEOUT_SECONDS,
        diskMib: REPLAY_DISK_MIB,
        ...props,
      });
    this.planner = make('Plan', {
      functionName: names.replayPlanner,
      roleName: names.replayPlannerRole,
      description: 'Plans the schedule of a replay and its shards',
      folder: 'plan-replay',
    });
    this.replayer = make('Shard', {
      functionName: names.replayer,
      roleName: names.replayerRole,
      description: 'Sends the requests of one shard of a replay',
      folder: 'replay-shard',
      asyncRetries: 0,
    });
    this.evaluator = make('Evaluation', {
      functionName: names.replayEvaluator,
      roleName: names.replayEvaluatorRole,
      description: 'Logs what a shard of a replay has sent and got, and has the judge compare the replies',
      folder: 'evaluate-replay',
    });
    this.summarizer = make('Summary', {
      functionName: names.replaySummarizer,
      roleName: names.replaySummarizerRole,
      description: 'Merges what the shards of a replay measured',
      folder: 'summarize-replay',
    });
    this.publisher = make('Publication', {
      functionName: names.replayPublisher,
      roleName: names.replayPublisherRole,
      description: 'Gives the figures and files of a replay to its run in MLflow',
      folder: 'publish-replay',
    });
    this.stopper = make('Stop', {
      functionName: names.replayStopper,
      roleName: names.replayStopperRole,
      description: 'Brings a replay to its end whose execution was stopped',
      folder: 'stop-replay',
      // It waits, and calls the others.
      memoryMb: settings.LAMBDA_MEMORY_MB,
      diskMib: undefined,
    });
    this.#grant(props);
    this.stateMachine = new ReplayStateMachine(this, 'Machine', {
      settings,
      workBucket,
      planner: this.planner.function,
      replayer: this.replayer.function,
      evaluator: this.evaluator.function,
      summarizer: this.summarizer.function,
      publisher: this.publisher.function,
    }).stateMachine;
    this.notEnded = new ReplayStop(this, 'Stopping', {
      settings,
      replay: this.stateMachine,
      stopper: this.stopper,
      summarizer: this.summarizer.function,
      publisher: this.publisher.function,
    }).deadLetters;
  }

  #grant({ settings, workBucket, budget }: ReplayProps): void {
    for (const { role } of [this.planner, this.replayer]) grantCaptureRead(role, settings);
    for (const { role } of [this.planner, this.evaluator, this.publisher]) grantMlflow(role, settings);
    for (const { role } of [this.evaluator, this.publisher]) grantArtifacts(role, settings);
    grantWork(workBucket, this.planner.role, {
      read: ['replayStop'],
      write: ['replayPlan'],
      upload: ['replayManifest', 'replaySchedule'],
    });
    grantModelLookUp(this.planner.role, settings.BEDROCK_MODEL_ID);
    grantWork(workBucket, this.replayer.role, {
      read: ['replayPlan', 'replaySchedule', 'replayStop'],
      write: ['replayClaims'],
      upload: ['replayShards'],
    });
    grantReplayTargets(this.replayer.role, settings);
    grantWork(workBucket, this.evaluator.role, {
      read: ['replayPlan', 'replayShards', 'replayEvaluations', 'replayStop'],
      write: ['replayEvaluations'],
    });
    grantJudge(this.evaluator.role, settings);
    grantBudget(this.evaluator.role, budget);
    grantWork(workBucket, this.summarizer.role, {
      read: ['replayPlan', 'replaySchedule', 'replayClaims', 'replayShards', 'replayEvaluations', 'replayStop'],
      write: ['replayPublication'],
      upload: ['replayResults'],
    });
    grantWork(workBucket, this.publisher.role, {
      read: ['replayPlan', 'replayPublication', 'replayResults', 'replayStop'],
    });
    grantWork(workBucket, this.stopper.role, {
      // What the shards and the summary have left it only looks for.
      read: ['replayPlan', 'replayFigures', 'replayPublication', 'replayStop'],
      write: ['replayStop'],
    });
  }
}
