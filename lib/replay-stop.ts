/**
 * Ends a replay whose execution was stopped or has failed. Step Functions does not stop the Lambdas that are sending, and
 * no further state of the execution runs. So an EventBridge rule calls one function.
 */
import { Rule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow } from './access/allow.ts';
import { grantKey } from './access/key.ts';
import { acknowledge } from './acknowledge.ts';
import { DELIVERY, deadLetterQueue } from './event-delivery.ts';
import type { ReplayFunctions } from './replay-functions.ts';

/** The stopper calls the summarizer and the publisher. */
interface ReplayStopProps extends Pick<ReplayFunctions, 'stopper' | 'summarizer' | 'publisher'> {
  settings: Settings;
  /** The state machine of replays. */
  replay: IStateMachine;
}

export class ReplayStop extends Construct {
  /** Events that could not be delivered, and events on which every attempt of the function failed. */
  readonly deadLetters: Queue;

  constructor(scope: Construct, id: string, { settings, replay, stopper, summarizer, publisher }: ReplayStopProps) {
    super(scope, id);
    this.deadLetters = deadLetterQueue(this, settings);
    // No queue names it as its dead-letter queue, which is how the rule recognizes one.
    acknowledge(this.deadLetters, { 'AwsSolutions-SQS3': 'This queue is the dead-letter queue.' });
    new Rule(this, 'Rule', {
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
      targets: [new LambdaFunction(stopper.function, { ...DELIVERY, deadLetterQueue: this.deadLetters })],
    });
    // A call that is throttled is retried for up to a minute and a half.
    stopper.function.addEnvironment('AWS_MAX_ATTEMPTS', '10');
    // Lambda retries twice, after one and two minutes. The CDK's own destination would grant three actions.
    stopper.function.configureAsyncInvoke({ onFailure: { bind: () => ({ destination: this.deadLetters.queueArn }) } });
    allow(stopper.role, { actions: ['sqs:SendMessage'], resources: [this.deadLetters.queueArn] });
    grantKey(stopper.role, this.deadLetters.encryptionMasterKey?.keyArn, 'sqs', 'both');
    allow(stopper.role, {
      actions: ['lambda:InvokeFunction'],
      resources: [summarizer.function.functionArn, publisher.function.functionArn],
    });
  }
}
