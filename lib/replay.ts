/** Cloud replays: the functions, the state machine that a person starts, and the rule that ends stopped replays. */
import { Rule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow, grantKey } from './access/allow.ts';
import { acknowledge } from './acknowledge.ts';
import { DELIVERY, eventQueue } from './event-delivery.ts';
import type { StackContext } from './pipeline-function.ts';
import { type ReplayFunctions, replayFunctions } from './replay-functions.ts';
import { ReplayStateMachine } from './state-machines/replay.ts';

/** @returns also the dead letters of replays that were stopped but could not be brought to their end */
export function cloudReplay(scope: Construct, context: StackContext, monitoring: IStateMachine) {
  const { settings, workBucket } = context;
  const functions = replayFunctions(scope, context);
  // The exchanges are traced and judged by a run of the monitoring.
  const { stateMachineArn } = monitoring;
  allow(functions.summarizer.role, { actions: ['states:StartExecution'], resources: [stateMachineArn] });
  functions.summarizer.function.addEnvironment('STATE_MACHINE_ARN', stateMachineArn);
  const { stateMachine } = new ReplayStateMachine(scope, 'Machine', { settings, workBucket, ...functions });
  const notEnded = endStopped(new Construct(scope, 'Stopping'), settings, stateMachine, functions);
  return { stateMachine, notEnded };
}

/**
 * Ends a replay whose execution was stopped or has failed. Step Functions does not stop the Lambdas that are sending, and
 * no further state of the execution runs. So an EventBridge rule calls one function, the stopper, which calls the summarizer and
 * the publisher.
 *
 * @returns the queue of events that could not be delivered, and of events on which every attempt of the function failed
 */
function endStopped(
  scope: Construct,
  settings: Settings,
  replay: IStateMachine,
  { stopper, summarizer, publisher }: ReplayFunctions,
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
    targets: [new LambdaFunction(stopper.function, { ...DELIVERY, deadLetterQueue: deadLetters })],
  });
  // A call that is throttled is retried for up to a minute and a half.
  stopper.function.addEnvironment('AWS_MAX_ATTEMPTS', '10');
  // Lambda retries twice, after one and two minutes. The CDK's own destination would grant three actions.
  stopper.function.configureAsyncInvoke({ onFailure: { bind: () => ({ destination: deadLetters.queueArn }) } });
  allow(stopper.role, { actions: ['sqs:SendMessage'], resources: [deadLetters.queueArn] });
  grantKey(stopper.role, deadLetters.encryptionMasterKey?.keyArn, 'sqs', 'both');
  allow(stopper.role, {
    actions: ['lambda:InvokeFunction'],
    resources: [summarizer.function.functionArn, publisher.function.functionArn],
  });
  return deadLetters;
}
