/** Watches the quality that a run has seen: metrics, detectors and messages. */

import { MetricUnit } from '@aws-lambda-powertools/metrics';
import type { AwsClient } from '../core/aws/aws-post.ts';
import { queryAws } from '../core/aws/aws-query.ts';
import { consoleLinks } from '../core/aws/console-links.ts';
import type { Storage } from '../core/aws/storage.ts';
import { QUALITY_DIMENSIONS, type QualityMetric } from '../core/contract/metric-names.ts';
import type { ObservedSeries } from '../core/contract/quality.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { PermanentError, saidBy } from '../core/errors/errors.ts';
import { createMetrics, logger } from '../core/process/logging.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { sum } from '../core/values/sum.ts';
import { Detectors } from '../quality/detectors.ts';
import { ERROR_REPLIES, objectivesOf } from '../quality/objectives.ts';
import type { RunSums } from '../quality/run-sums.ts';
import { watchQuality } from '../quality/watch.ts';
import { isLive } from './plan/input.ts';
import type { RunSummary } from './summary.ts';

type WatchedRun = Pick<RunSummary, 'run' | 'startedAt' | 'input' | 'options'>;

/**
 * Returns a function that watches a run with new captures, and returns whether an objective has become missed or met.
 * Backfills, retries and re-evaluations raise no alarms and publish no metrics, because metrics get the current time.
 */
export function connectQuality(environment: LambdaEnvironment, storage: Storage) {
  const { ALARM_TOPIC_ARN: topic } = environment;
  const objectives = objectivesOf(environment);
  // Their limits take up to some seconds to calculate, which only a run of new captures needs.
  let detectors: Detectors | undefined;
  return async ({ run, startedAt, input, options }: WatchedRun, quality: RunSums): Promise<boolean> => {
    const { series, failures } = quality;
    if (objectives.length === 0 || Object.keys(series).length === 0 || !isLive(input, options)) return false;
    detectors ??= new Detectors(objectives, environment.SHADOW_VARIANTS);
    const context = {
      stackPrefix: environment.STACK_PREFIX,
      endpointName: environment.SAGEMAKER_ENDPOINT_NAME,
      mlflow: environment.MLFLOW_TRACKING_URI,
      experimentId: quality.experimentId,
      page: pageAddress(environment.WORK_BUCKET),
    };
    const observedRun = { name: run, startedMs: Date.parse(startedAt), observations: { series, failures } };
    let changed = false;
    const missed = await watchQuality(observedRun, {
      storage,
      workBucket: environment.WORK_BUCKET,
      detectors,
      context,
      publish: async (message) => {
        changed = true;
        if (topic !== undefined) await publishToTopic(storage.s3, topic, message);
        logger.info('A message about quality was sent', { subject: message.subject });
      },
    });
    publishQuality(environment.STACK_PREFIX, series, missed, Date.now());
    return changed;
  };
}

/** Returns the address of the newest page in the console, because anyone with a signed link could read the page. */
function pageAddress(bucket: string): string {
  const key = workKeys.report('latest');
  return consoleLinks(process.env.AWS_REGION ?? '')?.s3(bucket, key) ?? `s3://${bucket}/${key}`;
}

// --------------------------------------------------------------------------------------------------------- metrics
// Of CloudWatch: of the measures that have an objective, by variant.

/** CloudWatch takes at most 100 values of a metric at once. */
const MAX_AGES = 50;

/**
 * Publishes CloudWatch metrics of a run of new captures: of the measures that have an objective, by variant.
 *
 * @param missed ids of the objectives that are missed. Their metric exists only while they are
 */
export function publishQuality(
  stackPrefix: string,
  series: ObservedSeries,
  missed: readonly string[],
  nowMs: number,
): void {
  const publish = (dimensions: Record<string, string>, values: Partial<Record<QualityMetric, number[]>>): void => {
    const metrics = createMetrics(stackPrefix);
    metrics.addDimensions(dimensions);
    for (const [name, all] of Object.entries(values)) {
      const unit = name === ('VerdictAge' satisfies QualityMetric) ? MetricUnit.Seconds : MetricUnit.Count;
      for (const value of all) metrics.addMetric(name, unit, value);
    }
    metrics.publishStoredMetrics();
  };
  const ages = new Map<string, number[]>();
  for (const [measure, variants] of Object.entries(series)) {
    for (const [variant, seconds] of Object.entries(variants)) {
      const cases = sum(Object.values(seconds).map((one) => one.cases ?? 0));
      const failed = sum(Object.values(seconds).map((one) => one.failed ?? 0));
      const byVariant = { [QUALITY_DIMENSIONS.variant]: variant };
      if (measure === ERROR_REPLIES) publish(byVariant, { ErrorReplies: [failed] });
      else
        publish({ [QUALITY_DIMENSIONS.scorer]: measure, ...byVariant }, { Judged: [cases], Passed: [cases - failed] });
      ages.set(variant, [
        ...(ages.get(variant) ?? []),
        ...Object.keys(seconds).map((second) => Math.max(0, nowMs / 1000 - Number(second))),
      ]);
    }
  }
  for (const [variant, all] of ages) {
    publish({ [QUALITY_DIMENSIONS.variant]: variant }, { VerdictAge: evenly(all.toSorted((a, b) => a - b)) });
  }
  for (const objective of missed) publish({ [QUALITY_DIMENSIONS.objective]: objective }, { QualityMissed: [1] });
}

/** Returns some of the sorted values, the first and the last among them. */
function evenly(sorted: readonly number[]): number[] {
  if (sorted.length <= MAX_AGES) return [...sorted];
  const step = (sorted.length - 1) / (MAX_AGES - 1);
  return Array.from({ length: MAX_AGES }, (_, index) => sorted[Math.round(index * step)] ?? 0);
}

/**
 * Publishes a message. See https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
 *
 * @param subject less than 100 characters of ASCII
 * @param body a text for each protocol, and `default`
 * @throws PermanentError `MessageNotSent`
 */
async function publishToTopic(
  client: AwsClient,
  TopicArn: string,
  { subject: Subject, body }: { subject: string; body: Readonly<Record<string, string>> },
): Promise<void> {
  const input = { TopicArn, Subject, MessageStructure: 'json', Message: JSON.stringify(body) };
  await queryAws(client, 'sns', 'Publish', input).catch((error: unknown) => {
    const facts = { got: saidBy(error), where: TopicArn };
    throw new PermanentError('MessageNotSent', 'A message to the topic was not accepted', facts, error);
  });
}
