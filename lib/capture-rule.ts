/** Starts the state machine for every capture file that appears. */
import { Duration } from 'aws-cdk-lib';
import { Match, Rule } from 'aws-cdk-lib/aws-events';
import { SfnStateMachine } from 'aws-cdk-lib/aws-events-targets';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../lambda/contract.ts';
import { acknowledge } from './acknowledge.ts';
import { CaptureNotifications } from './capture-notifications.ts';
import type { Settings } from './settings.ts';

/** The longest that EventBridge tries, and that SQS keeps what it gave up: a fortnight to notice the alarm. */
const EVENT_AGE = Duration.hours(24);
const EVENT_RETRIES = 185;
const DEAD_LETTERS = Duration.days(14);

/** `*` and `\` have a meaning in a wildcard pattern. */
export const escapeWildcard = (text: string): string => text.replace(/[\\*]/g, String.raw`\$&`);

export interface CaptureRuleProps {
  settings: Settings;
  stateMachine: IStateMachine;
}

export class CaptureRule extends Construct {
  readonly rule: Rule;
  readonly deadLetters: Queue;

  constructor(scope: Construct, id: string, { settings, stateMachine }: CaptureRuleProps) {
    super(scope, id);
    new CaptureNotifications(this, 'Notifications', settings);
    this.deadLetters = new Queue(this, 'DeadLetters', {
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      retentionPeriod: DEAD_LETTERS,
    });
    acknowledge(this.deadLetters, { 'AwsSolutions-SQS3': 'This queue is the dead-letter queue.' });
    this.rule = new Rule(this, 'Rule', {
      ruleName: resourceNames(settings.STACK_PREFIX).rule,
      description: 'A capture file has appeared',
      eventPattern: {
        source: ['aws.s3'],
        detailType: ['Object Created'],
        detail: {
          bucket: { name: [settings.DATA_CAPTURE_S3_BUCKET] },
          // One matcher for prefix and suffix: two of them in a list would each match alone.
          object: { key: Match.wildcard(`${escapeWildcard(settings.DATA_CAPTURE_S3_PREFIX)}*.jsonl`) },
        },
      },
      targets: [
        new SfnStateMachine(stateMachine, {
          deadLetterQueue: this.deadLetters,
          maxEventAge: EVENT_AGE,
          retryAttempts: EVENT_RETRIES,
        }),
      ],
    });
  }
}
