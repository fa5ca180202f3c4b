/** Replays on demand: four functions, the state machine that a person starts, and the one that ends what was stopped. */
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../lambda/contract.ts';
import { REPLAY_DISK_MIB, REPLAYER_TIMEOUT_SECONDS } from '../lambda/replay-contract.ts';
import { grantCaptureRead } from './capture-access.ts';
import { replayEnvironment } from './function-environment.ts';
import { PipelineFunction, type PipelineFunctionProps } from './pipeline-function.ts';
import { grantReplayTargets } from './replay-access.ts';
import { ReplayStateMachine } from './replay-state-machine.ts';
import { ReplayStop } from './replay-stop.ts';
import type { Settings } from './settings.ts';
import { grantWork } from './work-access.ts';

/**
 * One whole vCPU: Lambda gives CPU in proportion to memory, one vCPU at 1,769 MB. A function with less is stopped for the
 * rest of each time slice once it has used its share, and what was due in that time is sent late; a second vCPU would
 * wait for a sender whose event loop is one thread. The process itself takes some 150 MB: 1.6 GB are left for requests
 * and replies under way, such as 30 of 25 MB each with replies of the same size.
 */
export const ONE_VCPU_MB = 1769;

export interface ReplayProps {
  settings: Settings;
  workBucket: IBucket;
  /** What all functions of the stack get. */
  environment: Record<string, string>;
}

export class Replay extends Construct {
  readonly stateMachine: StateMachine;
  readonly planner: PipelineFunction;
  readonly replayer: PipelineFunction;
  readonly summarizer: PipelineFunction;
  readonly stopper: PipelineFunction;

  constructor(scope: Construct, id: string, { settings, workBucket, environment }: ReplayProps) {
    super(scope, id);
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
    this.summarizer = make('Summary', {
      functionName: names.replaySummarizer,
      roleName: names.replaySummarizerRole,
      description: 'Merges what the shards of a replay measured',
      folder: 'summarize-replay',
    });
    this.stopper = make('Stop', {
      functionName: names.replayStopper,
      roleName: names.replayStopperRole,
      description: 'Tells the shards of a replay to stop, and waits for them',
      folder: 'stop-replay',
    });
    this.#grant(settings, workBucket);
    this.stateMachine = new ReplayStateMachine(this, 'Machine', {
      settings,
      workBucket,
      planner: this.planner.function,
      replayer: this.replayer.function,
      summarizer: this.summarizer.function,
    }).stateMachine;
    new ReplayStop(this, 'Stopping', {
      settings,
      workBucket,
      replay: this.stateMachine,
      stopper: this.stopper.function,
      summarizer: this.summarizer.function,
    });
  }

  #grant(settings: Settings, workBucket: IBucket): void {
    for (const { role } of [this.planner, this.replayer]) grantCaptureRead(role, settings);
    grantWork(workBucket, this.planner.role, {
      write: ['replayPlan'],
      upload: ['replayManifest', 'replaySchedule'],
    });
    grantWork(workBucket, this.replayer.role, {
      read: ['replayPlan', 'replaySchedule', 'replayStop'],
      write: ['replayClaims'],
      upload: ['replayShards'],
    });
    grantReplayTargets(this.replayer.role, settings);
    grantWork(workBucket, this.summarizer.role, {
      read: ['replayPlan', 'replaySchedule', 'replayClaims', 'replayShards', 'replayStop'],
      upload: ['replayResults'],
    });
    grantWork(workBucket, this.stopper.role, {
      // The shards' results and claims it only lists.
      read: ['replayPlan', 'replayFigures'],
      write: ['replayStop'],
    });
  }
}
