/** The CloudWatch metrics of labels. */
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import type { TruthRunSummary } from '../core/contract/ground-truth.ts';
import type { LabelMetric } from '../core/contract/names.ts';
import { createMetrics } from '../core/process/metrics.ts';

/**
 * Publishes what became of the labels of a run's files. A run without files publishes nothing.
 *
 * @param unusable files of which nothing could be used
 */
export function publishLabelCounts(stackPrefix: string, { counts, files }: TruthRunSummary, unusable: number): void {
  if (files.length === 0) return;
  const values: Record<LabelMetric, number> = {
    LabelsRead: counts.lines,
    LabelsJoined: counts.joined + counts.repeated + counts.replaced + counts.outdated,
    LabelsInvalid: counts.invalid + counts.ambiguous + unusable,
  };
  const metrics = createMetrics(stackPrefix);
  for (const [name, value] of Object.entries(values)) metrics.addMetric(name, MetricUnit.Count, value);
  metrics.publishStoredMetrics();
}
