/**
 * Sends outside of the account: new capture files to Arthur, and spans and verdicts to an OpenTelemetry receiver. Each has events and a
 * function of its own, which exist only if the settings name an address.
 */
import { Duration } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/aws-events';
import type { CfnBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { FUNCTION_TIMEOUT_SECONDS } from '../src/core/contract/execution.ts';
import type { ForwardMetric, OtlpMetric } from '../src/core/contract/metric-names.ts';
import { resourceNames } from '../src/core/contract/names.ts';
import { ledgerKeys, SENT_TABLES } from '../src/core/contract/work-keys.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { grantPseudonymKey, grantSecret } from './access/allow.ts';
import { grantCaptureRead } from './access/capture.ts';
import { grantMlflow } from './access/mlflow.ts';
import { type Alarms, lateOrLost } from './alarms.ts';
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

export class Forward extends ObjectEvents {
  readonly forwarder: PipelineFunction;

  constructor(scope: Construct, id: string, { settings, workBucket, budget }: StackContext) {
    const { forwardRule, forwardQueue } = resourceNames(settings.STACK_PREFIX);
    const prefix = settings.ARTHUR_S3_PREFIX ?? settings.DATA_CAPTURE_S3_PREFIX;
    super(scope, id, {
      settings,
      ruleName: forwardRule,
      description: 'A capture file was written that is for Arthur',
      bucket: settings.DATA_CAPTURE_S3_BUCKET,
      keys: Match.wildcard(`${escapeWildcard(prefix)}*${escapeWildcard(settings.ARTHUR_S3_SUFFIX)}`),
      queueName: forwardQueue,
      ...RETRIED,
    });
    this.forwarder = new PipelineFunction(this, 'Forwarder', 'forwarder', {
      ...{ settings, workBucket },
      environment: {
        ...functionEnvironment(settings, workBucket.bucketName, budget.tableName, FORWARD_NAMES),
        ARTHUR_S3_PREFIX: prefix,
      },
      memoryMb: MEMORY_MB,
    });
    const { role } = this.forwarder;
    grantCaptureRead(role, settings, prefix);
    grantSecret(role, settings.ARTHUR_SECRET_ARN);
    grantItems(role, budget, settings);
    this.read(this.forwarder, { batchSize: FILES_AT_ONCE, windowSeconds: 0, concurrency: FORWARDERS_AT_ONCE });
    this.letPostpone(this.forwarder);
  }

  /** Adds the alarm about files that do not reach Arthur. */
  alarm(alarms: Alarms, { STACK_PREFIX: prefix }: Settings): void {
    const { forwardRule } = resourceNames(prefix);
    const counted = boundsOf(prefix, 'ForwardUntaken', 'ForwardLate');
    alarms.add('ForwardFailed', { metric: lateOrLost(this, forwardRule, 'Files that did not reach Arthur', counted) });
  }
}

/** Counts what the receiver did not take, and late messages, beside the queue's own. */
const boundsOf = (prefix: string, untaken: ForwardMetric | OtlpMetric, late: ForwardMetric | OtlpMetric) => ({
  longestSeconds: UNREAD_SECONDS,
  more: { untaken: runMetric(prefix, untaken, PERIOD), late: runMetric(prefix, late, PERIOD) },
});

export class Otlp extends ObjectEvents {
  readonly sender: PipelineFunction;

  constructor(scope: Construct, id: string, { settings, workBucket, budget, environment }: StackContext) {
    super(scope, id, {
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
    const sent = { settings, workBucket, environment: { ...environment, ...otlpEnvironment(settings) } };
    this.sender = new PipelineFunction(this, 'Sender', 'otlpSender', sent);
    const { role } = this.sender;
    grantCaptureRead(role, settings);
    grantMlflow(role, settings);
    // Captures of earlier runs are read as they were masked then.
    grantPseudonymKey(role, settings, true);
    grantSecret(role, settings.OTLP_SECRET_ARN);
    grantSentTraces(role, budget, settings);
    this.read(this.sender, { batchSize: PARTS_AT_ONCE, windowSeconds: 0, concurrency: SENDERS_AT_ONCE });
    this.letPostpone(this.sender);
  }

  /** Adds the alarm about spans and verdicts that do not reach the receiver. */
  alarm(alarms: Alarms, { STACK_PREFIX: prefix }: Settings): void {
    const label = 'Spans and verdicts that did not reach the receiver';
    const counted = boundsOf(prefix, 'OtlpRejected', 'OtlpLate');
    alarms.add('OtlpFailed', { metric: lateOrLost(this, resourceNames(prefix).otlpRule, label, counted) });
  }
}
