/** The rule of new capture files, and the notifications that it needs. */
import { Match } from 'aws-cdk-lib/aws-events';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { CaptureNotifications } from './capture-notifications.ts';
import { ObjectRule } from './object-rule.ts';
import type { PipelineFunction } from './pipeline-function.ts';

/** Escapes `*` and `\`, which are special in a wildcard pattern. What only the deployment knows must have none of them. */
export const escapeWildcard = (text: string): string => text.replace(/[\\*]/g, String.raw`\$&`);

interface CaptureRuleProps {
  settings: Settings;
  stateMachine: IStateMachine;
  starter: PipelineFunction;
}

export class CaptureRule extends ObjectRule {
  constructor(scope: Construct, id: string, props: CaptureRuleProps) {
    const { STACK_PREFIX, DATA_CAPTURE_S3_BUCKET, DATA_CAPTURE_S3_PREFIX } = props.settings;
    super(scope, id, {
      ...props,
      ruleName: resourceNames(STACK_PREFIX).rule,
      description: 'A capture file was written',
      bucket: DATA_CAPTURE_S3_BUCKET,
      // One matcher for prefix and suffix, since either of two matchers in a list would be enough to match.
      keys: Match.wildcard(`${escapeWildcard(DATA_CAPTURE_S3_PREFIX)}*.jsonl`),
    });
    new CaptureNotifications(this, 'Notifications', props.settings);
  }
}
