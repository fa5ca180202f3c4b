/** Cloud replays: the functions, the state machine that a person starts, and the rule that ends stopped replays. */
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { type ReplayFunctionsProps, replayFunctions } from './replay-functions.ts';
import { ReplayStop } from './replay-stop.ts';
import { ReplayStateMachine } from './state-machines/replay.ts';

export class Replay extends Construct {
  readonly stateMachine: StateMachine;
  /** The dead letters of replays that were stopped but could not be brought to their end. */
  readonly notEnded: IQueue;

  constructor(scope: Construct, id: string, props: ReplayFunctionsProps) {
    super(scope, id);
    const { settings, workBucket } = props;
    const functions = replayFunctions(this, props);
    this.stateMachine = new ReplayStateMachine(this, 'Machine', { settings, workBucket, ...functions }).stateMachine;
    this.notEnded = new ReplayStop(this, 'Stopping', { settings, replay: this.stateMachine, ...functions }).deadLetters;
  }
}
