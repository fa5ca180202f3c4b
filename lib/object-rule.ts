/** The path of a new file to its run: the rule, the queue that collects events, and the function that starts runs. */
import { Duration } from 'aws-cdk-lib';
import { Rule } from 'aws-cdk-lib/aws-events';
import { EventSourceMapping } from 'aws-cdk-lib/aws-lambda';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import type { Settings } from '../src/settings/schema.ts';
import { allow } from './access/allow.ts';
import { grantKey } from './access/key.ts';
import { DELIVERY, deadLetterQueue, eventQueue, toQueue } from './event-delivery.ts';
import { STARTER_TIMEOUT_SECONDS } from './monitoring-functions.ts';
import type { PipelineFunction } from './pipeline-function.ts';

interface ObjectRuleProps {
  settings: Settings;
  ruleName: string;
  description: string;
  bucket: string;
  /** A matcher of keys. Absent: any key. */
  keys?: string[] | undefined;
  stateMachine: IStateMachine;
  starter: PipelineFunction;
}

/** Lambda's maximum. An invocation gets at most 6 MB, which is about 3,000 events. */
const MOST_EVENTS = 10_000;
/** Lambda's maximum without a window. */
const MOST_EVENTS_AT_ONCE = 10;
/** Lambda's minimum. The fewer, the fuller the batches. */
export const STARTERS_AT_ONCE = 2;
/** Six times the timeout of the function and the window: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html */
const TIMEOUTS_HIDDEN = 6;

export class ObjectRule extends Construct {
  readonly rule: Rule;
  /** The events that wait for their run. */
  readonly events: Queue;
  readonly deadLetters: Queue;

  constructor(scope: Construct, id: string, props: ObjectRuleProps) {
    super(scope, id);
    const { settings, bucket, keys: key } = props;
    this.deadLetters = deadLetterQueue(this, settings);
    const hidden = Duration.seconds(TIMEOUTS_HIDDEN * STARTER_TIMEOUT_SECONDS + settings.BATCH_WINDOW_SECONDS);
    this.events = eventQueue(this, 'Events', settings, {
      visibilityTimeout: hidden,
      // As long as EventBridge itself would try.
      deadLetterQueue: {
        queue: this.deadLetters,
        maxReceiveCount: Math.ceil(DELIVERY.maxEventAge.toSeconds() / hidden.toSeconds()),
      },
    });
    this.rule = new Rule(this, 'Rule', {
      ruleName: props.ruleName,
      description: props.description,
      eventPattern: {
        source: ['aws.s3'],
        detailType: ['Object Created'],
        detail: { bucket: { name: [bucket] }, ...(key && { object: { key } }) },
      },
      targets: [toQueue(this.events, this.deadLetters)],
    });
    this.#connect(props);
  }

  #connect({ starter, stateMachine: { stateMachineArn }, settings }: ObjectRuleProps): void {
    const window = settings.BATCH_WINDOW_SECONDS;
    starter.function.addEnvironment('STATE_MACHINE_ARN', stateMachineArn);
    allow(starter.role, { actions: ['states:StartExecution'], resources: [stateMachineArn] });
    // Lambda polls the queue with the function's role.
    allow(starter.role, {
      actions: ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'],
      resources: [this.events.queueArn],
    });
    grantKey(starter.role, this.events.encryptionMasterKey?.keyArn, 'sqs', 'read');
    const mapping = new EventSourceMapping(this, 'Mapping', {
      target: starter.function,
      eventSourceArn: this.events.queueArn,
      batchSize: window === 0 ? MOST_EVENTS_AT_ONCE : MOST_EVENTS,
      maxBatchingWindow: Duration.seconds(window),
      reportBatchItemFailures: true,
      maxConcurrency: STARTERS_AT_ONCE,
    });
    // Lambda checks the permissions when it creates the mapping.
    mapping.node.addDependency(starter.role);
  }
}
