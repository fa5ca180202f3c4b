/** The metrics that alarms and dashboard show. */
import type { Duration } from 'aws-cdk-lib';
import { type IMetric, MathExpression, Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { RESOURCE_METRICS, type RunMetric } from '../src/contract/names.ts';

/** A metric of the runs' own, added up over a period. */
export const runMetric = (stackPrefix: string, metricName: RunMetric, period: Duration): Metric =>
  new Metric({
    namespace: RESOURCE_METRICS.namespace,
    metricName,
    dimensionsMap: { [RESOURCE_METRICS.dimension]: stackPrefix },
    period,
    statistic: Stats.SUM,
  });

/**
 * The sum of metrics that have no points while nothing happens: `m0 + m1` alone has none where one of them has none.
 *
 * @param label as graphs show it
 */
export function sumOf(metrics: readonly IMetric[], label: string, period: Duration): MathExpression {
  const usingMetrics = Object.fromEntries(metrics.map((metric, index) => [`m${index}`, metric]));
  const filled = Object.keys(usingMetrics).map((id) => `FILL(${id}, 0)`);
  return new MathExpression({ expression: `SUM([${filled.join(', ')}])`, usingMetrics, label, period });
}
