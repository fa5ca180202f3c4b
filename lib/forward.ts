/** Forwards new capture files to Arthur: the events, and a function of its own. It exists only if the settings name a host. */
import { Duration } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/aws-events';
import type { Construct } from 'constructs';
import { FUNCTION_TIMEOUT_SECONDS } from '../src/core/contract/execution.ts';
import { resourceNames } from '../src/core/contract/names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { grantSecret } from './access/allow.ts';
import { grantCaptureRead } from './access/capture.ts';
import { type Alarms, lateOrLost } from './alarms.ts';
import { grantItems } from './item-table.ts';
import { PERIOD, runMetric } from './metrics.ts';
import { escapeWildcard, ObjectEvents, TIMEOUTS_HIDDEN } from './object-rule.ts';
import { PipelineFunction, type StackContext } from './pipeline-function.ts';
import { FORWARD_NAMES, functionEnvironment } from './settings/function-environment.ts';

/** Files that an invocation uploads at the same time. */
const FILES_AT_ONCE = 5;
/** Lambda's minimum: Arthur gets at most ten files at the same time. */
const FORWARDERS_AT_ONCE = 2;
/** The waits between are 1, 2, 4, … minutes, and then an hour: about a day. */
const RECEIVES = 30;
/** An answer has up to 16 MB, and several times as much after JSON.parse. */
const MEMORY_MB = 1024;
/** If the function does not read the queue, events become this old. If it does, it counts late files itself. */
const UNREAD_SECONDS = 7200;

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
      hidden: Duration.seconds(TIMEOUTS_HIDDEN * FUNCTION_TIMEOUT_SECONDS),
      receives: RECEIVES,
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
    const more = {
      untaken: runMetric(prefix, 'ForwardUntaken', PERIOD),
      late: runMetric(prefix, 'ForwardLate', PERIOD),
    };
    const bounds = { longestSeconds: UNREAD_SECONDS, more };
    alarms.add('ForwardFailed', { metric: lateOrLost(this, forwardRule, 'Files that did not reach Arthur', bounds) });
  }
}
