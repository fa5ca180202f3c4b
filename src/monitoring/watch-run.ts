/** Watches the quality that a run has seen: metrics, detectors and messages. */

import { publishToTopic } from '../core/aws/publish-to-topic.ts';
import type { Storage } from '../core/aws/storage.ts';
import { logger } from '../core/process/logging.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { scorersFor } from '../judge/scorers/scorer-set.ts';
import { Detectors } from '../quality/detectors.ts';
import { readObjectives } from '../quality/objectives.ts';
import type { RunSums } from '../quality/run-sums.ts';
import { watchQuality } from '../quality/watch.ts';
import { isLive } from './plan/input.ts';
import { publishQuality } from './quality-metrics.ts';
import type { RunSummary } from './summary.ts';

type Watch = (summary: Pick<RunSummary, 'run' | 'startedAt' | 'input' | 'options'>, quality: RunSums) => Promise<void>;

/**
 * Returns a function that watches a run, if its captures are new. Backfills, retries and re-evaluations neither ring nor
 * appear in the metrics, whose time is now.
 */
export function connectQuality(environment: LambdaEnvironment, storage: Storage): Watch {
  const { QUALITY_OBJECTIVES: raw, EVALUATION_SAMPLE_RATE: sampleRate, ALARM_TOPIC_ARN: topic } = environment;
  const scorers = scorersFor({ guidelines: environment.JUDGE_GUIDELINES });
  const objectives = readObjectives(raw, { scorers, sampleRate });
  if (objectives.length === 0) return async () => undefined;
  // Their limits take up to some seconds to calculate, which only a run of new captures needs.
  let detectors: Detectors | undefined;
  return async ({ run, startedAt, input, options }, quality) => {
    const observations = quality.observations();
    if (observations === undefined || !isLive(input, options)) return;
    detectors ??= new Detectors(objectives, environment.SHADOW_VARIANTS);
    const context = {
      stackPrefix: environment.STACK_PREFIX,
      endpointName: environment.SAGEMAKER_ENDPOINT_NAME,
      mlflow: environment.MLFLOW_TRACKING_URI,
      experimentId: quality.experimentId,
    };
    const observedRun = { name: run, startedMs: Date.parse(startedAt), observations };
    const missed = await watchQuality(observedRun, {
      storage,
      workBucket: environment.WORK_BUCKET,
      detectors,
      context,
      publish: async (message) => {
        if (topic !== undefined) await publishToTopic(topic, message);
        logger.info('A message about quality was sent', { subject: message.subject });
      },
    });
    publishQuality(environment.STACK_PREFIX, observations, missed, Date.now());
  };
}
