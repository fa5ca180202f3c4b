/** The queues of events, and the delivery to them: retries, and dead letters for events whose target is unavailable. */
import { Duration } from 'aws-cdk-lib';
import type { IRuleRef, IRuleTarget } from 'aws-cdk-lib/aws-events';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Queue, QueueEncryption, type QueueProps } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import type { Settings } from '../src/core/settings/schema.ts';
import { workKey } from './access/allow.ts';

/** EventBridge's maximum. */
export const DELIVERY = { maxEventAge: Duration.hours(24), retryAttempts: 185 };

/** SQS's maximum: two weeks to notice an event that could not be delivered. */
const RETENTION = Duration.days(14);

/** Creates a queue that is encrypted, requires TLS and keeps its events for two weeks. */
export function eventQueue(scope: Construct, id: string, settings: Settings, more: QueueProps = {}): Queue {
  const key = workKey(scope, settings);
  return new Queue(scope, id, {
    ...(key
      ? { encryption: QueueEncryption.KMS, encryptionMasterKey: key }
      : { encryption: QueueEncryption.SQS_MANAGED }),
    enforceSSL: true,
    retentionPeriod: RETENTION,
    ...more,
  });
}

/**
 * Returns a queue as the target of a rule. The CDK's own target would let every rule of every account send to an
 * encrypted queue.
 */
export const toQueue = (queue: Queue, deadLetters: Queue): IRuleTarget => ({
  bind: (rule) => {
    for (const [index, each] of [queue, deadLetters].entries()) allowRule(rule, each, `AllowRule${index}`);
    return {
      arn: queue.queueArn,
      deadLetterConfig: { arn: deadLetters.queueArn },
      retryPolicy: {
        maximumEventAgeInSeconds: DELIVERY.maxEventAge.toSeconds(),
        maximumRetryAttempts: DELIVERY.retryAttempts,
      },
    };
  },
});

const allowRule = ({ ruleRef }: IRuleRef, queue: Queue, sid: string): unknown =>
  queue.addToResourcePolicy(
    new PolicyStatement({
      sid,
      actions: ['sqs:SendMessage'],
      principals: [new ServicePrincipal('events.amazonaws.com')],
      resources: [queue.queueArn],
      conditions: { ArnEquals: { 'aws:SourceArn': ruleRef.ruleArn } },
    }),
  );
