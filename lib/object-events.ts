/** The events of new objects, and the function that reads them: the rule, the queue that collects events, and its dead letters. */
import { Duration } from 'aws-cdk-lib';
import { Rule } from 'aws-cdk-lib/aws-events';
import { EventSourceMapping } from 'aws-cdk-lib/aws-lambda';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow } from './access/allow.ts';
import { grantKey } from './access/key.ts';
import { deadLetterQueue, eventQueue, toQueue } from './event-delivery.ts';
import type { PipelineFunction } from './pipeline-function.ts';

/** Escapes `*` and `\`, which are special in a wildcard pattern. What only the deployment knows must have none of them. */
export const escapeWildcard = (text: string): string => text.replace(/[\\*]/g, String.raw`\$&`);

export interface ObjectEventsProps {
  settings: Settings;
  ruleName: string;
  description: string;
  bucket: string;
  /** A matcher of keys. Absent: any key. */
  keys?: string[] | undefined;
  /** Default: one that CloudFormation makes. */
  queueName?: string;
  /** How long the queue hides events that a function reads. */
  hidden: Duration;
  /** How often an event is read before it is a dead letter. */
  receives: number;
}

export class ObjectEvents extends Construct {
  readonly rule: Rule;
  /** The events that wait for the function. */
  readonly events: Queue;
  readonly deadLetters: Queue;

  constructor(scope: Construct, id: string, props: ObjectEventsProps) {
    super(scope, id);
    const { settings, bucket, keys: key, queueName, hidden, receives } = props;
    this.deadLetters = deadLetterQueue(this, settings);
    this.events = eventQueue(this, 'Events', settings, {
      queueName,
      visibilityTimeout: hidden,
      deadLetterQueue: { queue: this.deadLetters, maxReceiveCount: receives },
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
  }

  /** Has the function read the events. @param windowSeconds how long a batch is collected */
  protected read(
    reader: PipelineFunction,
    { batchSize, windowSeconds, concurrency }: { batchSize: number; windowSeconds: number; concurrency: number },
  ): void {
    // Lambda polls the queue with the function's role.
    allow(reader.role, {
      actions: ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'],
      resources: [this.events.queueArn],
    });
    grantKey(reader.role, this.events.encryptionMasterKey?.keyArn, 'sqs', 'read');
    const mapping = new EventSourceMapping(this, 'Mapping', {
      target: reader.function,
      eventSourceArn: this.events.queueArn,
      batchSize,
      maxBatchingWindow: Duration.seconds(windowSeconds),
      reportBatchItemFailures: true,
      maxConcurrency: concurrency,
    });
    // Lambda checks the permissions when it creates the mapping.
    mapping.node.addDependency(reader.role);
  }
}
