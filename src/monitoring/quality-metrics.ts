/** The CloudWatch metrics of quality: of the measures that have an objective, by variant. */
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import { QUALITY_DIMENSIONS, type QualityMetric } from '../core/contract/names.ts';
import type { QualityObservations } from '../core/contract/quality.ts';
import { createMetrics } from '../core/process/metrics.ts';
import { ERROR_REPLIES } from '../quality/objectives.ts';

/** CloudWatch takes at most 100 values of a metric at once. */
const MAX_AGES = 50;

/**
 * Publishes what a run of new captures observed.
 *
 * @param missed ids of the objectives that are missed. Their metric exists only while they are
 */
export function publishQuality(
  stackPrefix: string,
  { series }: QualityObservations,
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
      const cases = seconds.reduce((sum, [, count]) => sum + count, 0);
      const failed = seconds.reduce((sum, [, , count]) => sum + count, 0);
      const byVariant = { [QUALITY_DIMENSIONS.variant]: variant };
      if (measure === ERROR_REPLIES) publish(byVariant, { ErrorReplies: [failed] });
      else
        publish({ [QUALITY_DIMENSIONS.scorer]: measure, ...byVariant }, { Judged: [cases], Passed: [cases - failed] });
      ages.set(variant, [
        ...(ages.get(variant) ?? []),
        ...seconds.map(([second]) => Math.max(0, nowMs / 1000 - second)),
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
