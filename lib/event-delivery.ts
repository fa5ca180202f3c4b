/** What becomes of an event whose target cannot take it. */
import { Duration } from 'aws-cdk-lib';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { acknowledge } from './acknowledge.ts';

/** The longest that EventBridge tries. */
export const DELIVERY = { maxEventAge: Duration.hours(24), retryAttempts: 185 };

/** The longest that SQS keeps what EventBridge gave up: a fortnight to notice it. */
const DEAD_LETTERS = Duration.days(14);

/** The scope's `DeadLetters`. */
export function deadLetterQueue(scope: Construct): Queue {
  const queue = new Queue(scope, 'DeadLetters', {
    encryption: QueueEncryption.SQS_MANAGED,
    enforceSSL: true,
    retentionPeriod: DEAD_LETTERS,
  });
  acknowledge(queue, { 'AwsSolutions-SQS3': 'This queue is the dead-letter queue.' });
  return queue;
}
