/**
 * What ends a replay in order whose execution was stopped, or has failed: Step Functions ends none of the Lambdas that
 * send, and nothing more of the execution runs. EventBridge tells one function of it.
 */
import { Rule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../src/contract/names.ts';
import type { Settings } from '../src/settings/schema.ts';
import { allow } from './access/allow.ts';
import { DELIVERY, deadLetterQueue } from './event-delivery.ts';
import type { PipelineFunction } from './pipeline-function.ts';

interface ReplayStopProps {
  settings: Settings;
  /** That of the replays. */
  replay: IStateMachine;
  stopper: PipelineFunction;
  /** Those that it calls. */
  summarizer: IFunction;
  publisher: IFunction;
}

export class ReplayStop extends Construct {
  /** Events that could not be delivered, and those on which the function has failed each time. */
  readonly deadLetters: Queue;

  constructor(scope: Construct, id: string, { settings, replay, stopper, summarizer, publisher }: ReplayStopProps) {
    super(scope, id);
    this.deadLetters = deadLetterQueue(this);
    new Rule(this, 'Rule', {
      ruleName: resourceNames(settings.STACK_PREFIX).replayStopRule,
      description: 'The execution of a replay has been stopped, or has failed',
      eventPattern: {
        source: ['aws.states'],
        detailType: ['Step Functions Execution Status Change'],
        detail: {
          // Whole: children of its Map belong to a state machine whose ARN begins with it.
          stateMachineArn: [replay.stateMachineArn],
          status: ['ABORTED', 'TIMED_OUT', 'FAILED'],
        },
      },
      targets: [new LambdaFunction(stopper.function, { ...DELIVERY, deadLetterQueue: this.deadLetters })],
    });
    // A function for which there is no free place is asked for up to a minute and a half.
    stopper.function.addEnvironment('AWS_MAX_ATTEMPTS', '10');
    // Lambda tries it twice again, after one and two minutes. The CDK's own destination would be given three actions.
    stopper.function.configureAsyncInvoke({ onFailure: { bind: () => ({ destination: this.deadLetters.queueArn }) } });
    allow(stopper.role, { actions: ['sqs:SendMessage'], resources: [this.deadLetters.queueArn] });
    allow(stopper.role, {
      actions: ['lambda:InvokeFunction'],
      resources: [summarizer.functionArn, publisher.functionArn],
    });
  }
}
