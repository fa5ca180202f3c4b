/** The rule that starts the state machine for every new capture file. */
import { Match, Rule } from 'aws-cdk-lib/aws-events';
import { SfnStateMachine } from 'aws-cdk-lib/aws-events-targets';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../src/contract/names.ts';
import type { Settings } from '../src/settings/schema.ts';
import { CaptureNotifications } from './capture-notifications.ts';
import { DELIVERY, deadLetterQueue } from './event-delivery.ts';

/** Escapes `*` and `\`, which are special in a wildcard pattern. */
export const escapeWildcard = (text: string): string => text.replace(/[\\*]/g, String.raw`\$&`);

interface CaptureRuleProps {
  settings: Settings;
  stateMachine: IStateMachine;
}

export class CaptureRule extends Construct {
  readonly rule: Rule;
  readonly deadLetters: Queue;

  constructor(scope: Construct, id: string, { settings, stateMachine }: CaptureRuleProps) {
    super(scope, id);
    new CaptureNotifications(this, 'Notifications', settings);
    this.deadLetters = deadLetterQueue(this, settings);
    this.rule = new Rule(this, 'Rule', {
      ruleName: resourceNames(settings.STACK_PREFIX).rule,
      description: 'A capture file was written',
      eventPattern: {
        source: ['aws.s3'],
        detailType: ['Object Created'],
        detail: {
          bucket: { name: [settings.DATA_CAPTURE_S3_BUCKET] },
          // One matcher for prefix and suffix, since either of two matchers in a list would be enough to match.
          object: { key: Match.wildcard(`${escapeWildcard(settings.DATA_CAPTURE_S3_PREFIX)}*.jsonl`) },
        },
      },
      targets: [new SfnStateMachine(stateMachine, { ...DELIVERY, deadLetterQueue: this.deadLetters })],
    });
  }
}
