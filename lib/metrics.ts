/** The metrics that the alarms and the dashboard use. */
import type { Duration } from 'aws-cdk-lib';
import { type IMetric, MathExpression, Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { RESOURCE_METRICS, type RunMetric } from '../src/contract/names.ts';

/** A metric that runs publish, as a sum per period. */
export const runMetric = (stackPrefix: string, metricName: RunMetric, period: Duration): Metric =>
  new Metric({
    namespace: RESOURCE_METRICS.namespace,
    metricName,
    dimensionsMap: { [RESOURCE_METRICS.dimension]: stackPrefix },
    period,
    statistic: Stats.SUM,
  });

/**
 * The sum of metrics that have no data points while nothing happens. `m0 + m1` would have no point wherever one of them has
 * none.
 *
 * @param label the label in graphs
 */
export function sumOf(metrics: readonly IMetric[], label: string, period: Duration): MathExpression {
  const usingMetrics = Object.fromEntries(metrics.map((metric, index) => [`m${index}`, metric]));
  const filled = Object.keys(usingMetrics).map((id) => `FILL(${id}, 0)`);
  return new MathExpression({ expression: `SUM([${filled.join(', ')}])`, usingMetrics, label, period });
}
