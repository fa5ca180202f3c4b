/**
 * How a new object starts a run: the notifications of its bucket, its event, the rule, and the function that starts
 * runs.
 */

import { readFileSync } from 'node:fs';
import { type CfnResource, CustomResource, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Match, Rule } from 'aws-cdk-lib/aws-events';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Code, EventSourceMapping, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { s3Place } from '../src/core/settings/kinds.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow, grantKey } from './access/allow.ts';
import { acknowledge } from './acknowledge.ts';
import { DELIVERY, eventQueue, toQueue } from './event-delivery.ts';
import { STARTER_TIMEOUT_SECONDS } from './monitoring-functions.ts';
import { connectToVpc, logsOf, type PipelineFunction } from './pipeline-function.ts';

// ---------------------------------------------------------------------------------------------------------- events
// The rule, the queue that collects events, the function that reads them, and its dead letters.

/** Escapes `*` and `\`, which are special in a wildcard pattern. What only the deployment knows must have none of them. */
export const escapeWildcard = (text: string): string => text.replace(/[\\*]/g, String.raw`\$&`);

interface ObjectEventsProps {
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

/**
 * The events of new objects: the rule, the queue that collects them, its dead letters, and the function that reads
 * them.
 */
export class ObjectEvents extends Construct {
  readonly rule: Rule;
  /** The events that wait for the function. */
  readonly events: Queue;
  readonly deadLetters: Queue;

  constructor(scope: Construct, id: string, props: ObjectEventsProps) {
    super(scope, id);
    const { settings, bucket, keys: key, queueName, hidden, receives } = props;
    this.deadLetters = eventQueue(this, 'DeadLetters', settings);
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

// -------------------------------------------------------------------------------------------------------- the rule

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
  notify(new Construct(rule, 'Notifications'), props.settings);
  return rule;
}

// --------------------------------------------------------------------------------------------------- notifications

/**
 * In Python, since that runtime has the AWS client for code that is part of the template. It does not validate the other
 * destinations: a broken one of another owner must not stop the deployment. Without a change it writes nothing.
 */
const HANDLER = readFileSync(packagePath('lib', 'switch_notifications.py'), 'utf8');

/**
 * Changes with each version of the package, and with each `inference-monitor deploy`: the function then looks at the bucket again, whose
 * owner may have rewritten its notifications.
 */
const { version } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8'));

/**
 * Makes existing buckets send events to EventBridge, beside their other notifications: the one with the captures, and
 * the one with the labels. Deleting the stack leaves them switched on, since another stack may need it.
 *
 * The CDK's own custom resource has one function per CloudFormation stack, with one role. In another owner's app
 * it would be shared: with buckets of theirs, which our role could not change, or with theirs, which may change every
 * bucket.
 */
function notify(scope: Construct, settings: Settings): void {
  const captures = settings.DATA_CAPTURE_S3_BUCKET;
  const labels = s3Place(settings.GROUND_TRUTH_S3_PREFIX).bucket;
  const buckets = { Switch: captures, ...(labels !== '' && labels !== captures && { LabelSwitch: labels }) };
  const names = Object.values(buckets);
  const functionName = resourceNames(settings.STACK_PREFIX).notifier;
  const logGroup = logsOf(scope, `/aws/lambda/${functionName}`, settings);
  const description = `Switches EventBridge on for ${names.join(' and ')}`;
  const role = new Role(scope, 'Role', { description, assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  const resources = names.map((name) => `arn:${Stack.of(scope).partition}:s3:::${name}`);
  allow(role, { actions: ['s3:GetBucketNotification', 's3:PutBucketNotification'], resources });
  logGroup.grantWrite(role);
  const handler = new LambdaFunction(scope, 'Function', {
    functionName,
    description,
    role,
    logGroup,
    code: Code.fromInline(HANDLER),
    handler: 'index.handler',
    runtime: Runtime.PYTHON_3_13,
    timeout: Duration.minutes(2),
  });
  acknowledge(handler, {
    'AwsSolutions-L1': 'A newer Python would need a newer CDK in the apps of others; this one is supported until 2029.',
  });
  // The bucket's policy may admit only the VPC, and a policy of the organization may refuse functions outside one.
  connectToVpc(handler.node.defaultChild as CfnResource, role, settings);
  for (const [name, BucketName] of Object.entries(buckets)) {
    new CustomResource(scope, name, {
      resourceType: 'Custom::CaptureNotifications',
      serviceToken: handler.functionArn,
      properties: { BucketName, Deployment: process.env.DEPLOYED_AT ?? version },
      // Deleting it would change nothing, but could fail: then the stack could not be deleted, and not even be rolled back.
      removalPolicy: RemovalPolicy.RETAIN,
    });
  }
}
