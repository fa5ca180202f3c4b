/**
 * Sends outside of the account: new capture files to Arthur, and spans and verdicts to an OpenTelemetry receiver. Each has events and a
 * function of its own, which exist only if the settings name an address.
 */
import { Duration } from 'aws-cdk-lib';
import type { IMetric } from 'aws-cdk-lib/aws-cloudwatch';
import { Match } from 'aws-cdk-lib/aws-events';
import type { CfnBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { FUNCTION_TIMEOUT_SECONDS } from '../src/core/contract/execution.ts';
import type { StackMetric } from '../src/core/contract/metric-names.ts';
import { resourceNames } from '../src/core/contract/names.ts';
import { ledgerKeys, SENT_TABLES } from '../src/core/contract/work-keys.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { grantPseudonymKey, grantSecret } from './access/allow.ts';
import { grantCaptureRead } from './access/capture.ts';
import { grantMlflow } from './access/mlflow.ts';
import { lateOrLost } from './alarms.ts';
import { grantItems, grantSentTraces } from './item-table.ts';
import { PERIOD, runMetric } from './metrics.ts';
import { escapeWildcard, ObjectEvents, TIMEOUTS_HIDDEN } from './object-rule.ts';
import { PipelineFunction, type StackContext } from './pipeline-function.ts';
import { FORWARD_NAMES, functionEnvironment, otlpEnvironment } from './settings/function-environment.ts';

/** Files that an invocation uploads at the same time. */
const FILES_AT_ONCE = 5;
/** Lambda's minimum: Arthur gets at most ten files at the same time. */
const FORWARDERS_AT_ONCE = 2;
/** The waits between are 1, 2, 4, … minutes, and then an hour: about a day. */
const RECEIVES = 30;
const RETRIED = { hidden: Duration.seconds(TIMEOUTS_HIDDEN * FUNCTION_TIMEOUT_SECONDS), receives: RECEIVES };
/** An answer has up to 16 MB, and several times as much after JSON.parse. */
const MEMORY_MB = 1024;
/** If the function does not read the queue, events become this old. If it does, it counts late files itself. */
const UNREAD_SECONDS = 7200;
/** Each has the spans of a chunk in memory. */
const PARTS_AT_ONCE = 1;
/** MLflow and the receiver get the requests of at most so many functions. */
const SENDERS_AT_ONCE = 4;

/** Sends new capture files to Arthur. @returns the function, and what counts that does not arrive, with its alarm */
export function arthurSender(scope: Construct, { settings, workBucket, budget }: StackContext) {
  const { forwardRule: ruleName, forwardQueue: queueName } = resourceNames(settings.STACK_PREFIX);
  const prefix = settings.ARTHUR_S3_PREFIX ?? settings.DATA_CAPTURE_S3_PREFIX;
  const events = new ObjectEvents(scope, 'Forward', {
    ...{ settings, ruleName, queueName },
    description: 'A capture file was written that is for Arthur',
    bucket: settings.DATA_CAPTURE_S3_BUCKET,
    keys: Match.wildcard(`${escapeWildcard(prefix)}*${escapeWildcard(settings.ARTHUR_S3_SUFFIX)}`),
    ...RETRIED,
  });
  const own = functionEnvironment(settings, workBucket.bucketName, budget.tableName, FORWARD_NAMES);
  const environment = { ...own, ARTHUR_S3_PREFIX: prefix };
  const options = { settings, workBucket, environment, memoryMb: MEMORY_MB };
  const sender = new PipelineFunction(events, 'Forwarder', 'forwarder', options);
  const { role } = sender;
  grantCaptureRead(role, settings, prefix);
  grantSecret(role, settings.ARTHUR_SECRET_ARN);
  grantItems(role, budget, settings);
  events.read(sender, { batchSize: FILES_AT_ONCE, concurrency: FORWARDERS_AT_ONCE });
  events.letPostpone(sender);
  const metric = notArrived(events, settings, 'Files that did not reach Arthur', 'ForwardUntaken', 'ForwardLate');
  return { sender, alarm: 'ForwardFailed', metric } as const;
}

/** Sends spans and verdicts to an OpenTelemetry receiver. @returns as `arthurSender` */
export function otlpSender(scope: Construct, { settings, workBucket, budget, environment }: StackContext) {
  const events = new ObjectEvents(scope, 'Otlp', {
    settings,
    ruleName: resourceNames(settings.STACK_PREFIX).otlpRule,
    description: 'A chunk has written what became of its captures',
    bucket: workBucket.bucketName,
    // A merged file has the rows of parts that were sent before.
    keys: Match.anyOf(...SENT_TABLES.map((table) => Match.wildcard(`${ledgerKeys.table(table)}*.part.parquet`))),
    ...RETRIED,
  });
  // The CDK's own way to switch events on is a function with a role for all buckets.
  const bucket = workBucket.node.defaultChild as CfnBucket;
  bucket.notificationConfiguration = { eventBridgeConfiguration: { eventBridgeEnabled: true } };
  const options = { settings, workBucket, environment: { ...environment, ...otlpEnvironment(settings) } };
  const sender = new PipelineFunction(events, 'Sender', 'otlpSender', options);
  const { role } = sender;
  grantCaptureRead(role, settings);
  grantMlflow(role, settings);
  // Captures of earlier runs are read as they were masked then.
  grantPseudonymKey(role, settings, true);
  grantSecret(role, settings.OTLP_SECRET_ARN);
  grantSentTraces(role, budget, settings);
  events.read(sender, { batchSize: PARTS_AT_ONCE, concurrency: SENDERS_AT_ONCE });
  events.letPostpone(sender);
  const label = 'Spans and verdicts that did not reach the receiver';
  const metric = notArrived(events, settings, label, 'OtlpRejected', 'OtlpLate');
  return { sender, alarm: 'OtlpFailed', metric } as const;
}

/** Counts what was not taken, and late messages, beside the queue's own. */
function notArrived(
  events: ObjectEvents,
  { STACK_PREFIX: prefix }: Settings,
  label: string,
  untaken: StackMetric,
  late: StackMetric,
): IMetric {
  const more = { untaken: runMetric(prefix, untaken, PERIOD), late: runMetric(prefix, late, PERIOD) };
  return lateOrLost(events, label, { longestSeconds: UNREAD_SECONDS, more });
}
