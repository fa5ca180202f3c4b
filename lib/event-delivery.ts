/** Retries and dead letters of events whose target is unavailable. */
import { Duration } from 'aws-cdk-lib';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import type { Settings } from '../src/settings/schema.ts';
import { workKey } from './access/key.ts';
import { acknowledge } from './acknowledge.ts';

/** EventBridge's maximum. */
export const DELIVERY = { maxEventAge: Duration.hours(24), retryAttempts: 185 };

/** SQS's maximum: two weeks to notice an event that EventBridge could not deliver. */
const DEAD_LETTERS = Duration.days(14);

/** Creates the dead-letter queue of a scope, as its child `DeadLetters`. */
export function deadLetterQueue(scope: Construct, settings: Settings): Queue {
  const key = workKey(scope, settings);
  const queue = new Queue(scope, 'DeadLetters', {
    ...(key
      ? { encryption: QueueEncryption.KMS, encryptionMasterKey: key }
      : { encryption: QueueEncryption.SQS_MANAGED }),
    enforceSSL: true,
    retentionPeriod: DEAD_LETTERS,
  });
  acknowledge(queue, { 'AwsSolutions-SQS3': 'This queue is the dead-letter queue.' });
  return queue;
}
