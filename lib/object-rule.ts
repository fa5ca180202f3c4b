/** The path of a new file to its run: its event, and the function that starts runs. */
import { Duration } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/aws-events';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import { allow } from './access/allow.ts';
import { CaptureNotifications } from './capture-notifications.ts';
import { DELIVERY } from './event-delivery.ts';
import { STARTER_TIMEOUT_SECONDS } from './monitoring-functions.ts';
import { escapeWildcard, ObjectEvents, type ObjectEventsProps } from './object-events.ts';
import type { PipelineFunction } from './pipeline-function.ts';

interface ObjectRuleProps extends Omit<ObjectEventsProps, 'hidden' | 'receives'> {
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
export const TIMEOUTS_HIDDEN = 6;

export class ObjectRule extends ObjectEvents {
  constructor(scope: Construct, id: string, { starter, stateMachine, ...props }: ObjectRuleProps) {
    const windowSeconds = props.settings.BATCH_WINDOW_SECONDS;
    const hidden = Duration.seconds(TIMEOUTS_HIDDEN * STARTER_TIMEOUT_SECONDS + windowSeconds);
    // As long as EventBridge itself would try.
    const receives = Math.ceil(DELIVERY.maxEventAge.toSeconds() / hidden.toSeconds());
    super(scope, id, { ...props, hidden, receives });
    const { stateMachineArn } = stateMachine;
    starter.function.addEnvironment('STATE_MACHINE_ARN', stateMachineArn);
    allow(starter.role, { actions: ['states:StartExecution'], resources: [stateMachineArn] });
    const batchSize = windowSeconds === 0 ? MOST_EVENTS_AT_ONCE : MOST_EVENTS;
    this.read(starter, { batchSize, windowSeconds, concurrency: STARTERS_AT_ONCE });
  }
}

/** The rule of new capture files, and the notifications that it needs. */
export function captureRule(
  scope: Construct,
  id: string,
  props: Pick<ObjectRuleProps, 'settings' | 'stateMachine' | 'starter'>,
): ObjectRule {
  const { STACK_PREFIX, DATA_CAPTURE_S3_BUCKET, DATA_CAPTURE_S3_PREFIX } = props.settings;
  const rule = new ObjectRule(scope, id, {
    ...props,
    ruleName: resourceNames(STACK_PREFIX).rule,
    description: 'A capture file was written',
    bucket: DATA_CAPTURE_S3_BUCKET,
    // One matcher for prefix and suffix, since either of two matchers in a list would be enough to match.
    keys: Match.wildcard(`${escapeWildcard(DATA_CAPTURE_S3_PREFIX)}*.jsonl`),
  });
  new CaptureNotifications(rule, 'Notifications', props.settings);
  return rule;
}
