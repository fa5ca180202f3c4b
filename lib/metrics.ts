/** The metrics that the alarms and the dashboard use. */
import { Duration } from 'aws-cdk-lib';
import { type IMetric, MathExpression, Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { RESOURCE_METRICS, type StackMetric, THROTTLE_METRICS } from '../src/core/contract/metric-names.ts';

/** Period of most metrics of the alarms and the dashboard. */
export const PERIOD = Duration.minutes(5);
export const SUM = { period: PERIOD, statistic: Stats.SUM };

/**
 * Returns a metric that runs or their functions publish, as a sum per period. @param dimensions further dimensions, for
 * metrics of quality
 */
export const runMetric = (
  stackPrefix: string,
  metricName: StackMetric,
  period: Duration,
  dimensions: Record<string, string> = {},
): Metric =>
  new Metric({
    namespace: RESOURCE_METRICS.namespace,
    metricName,
    dimensionsMap: { [RESOURCE_METRICS.dimension]: stackPrefix, ...dimensions },
    period,
    statistic: Stats.SUM,
  });

/**
 * Returns the average number of waiting chunks in a period. Each chunk reports its waiting time when it is postponed.
 */
export const waitingChunks = (stackPrefix: string, period: Duration): MathExpression =>
  new MathExpression({
    expression: `seconds / ${period.toSeconds()}`,
    usingMetrics: { seconds: runMetric(stackPrefix, THROTTLE_METRICS.chunks, period) },
    label: 'chunks that wait',
    period,
  });

/**
 * A metric of the children of each Map. Step Functions reports them under the ARN of the state machine,
 * followed by the label of the Map: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-examine-map-run.html
 *
 * @param maps the labels of the Maps
 */
export function childrenMetrics(
  { stateMachineArn }: IStateMachine,
  maps: readonly string[],
  metricName: 'ExecutionsStarted' | 'ExecutionsFailed' | 'ExecutionThrottled',
): Metric[] {
  return maps.map((map) => {
    const dimensionsMap = { StateMachineArn: `${stateMachineArn}/${map}` };
    return new Metric({ namespace: 'AWS/States', metricName, dimensionsMap, ...SUM });
  });
}

/**
 * Returns the sum of metrics that have no data points while nothing happens. `m0 + m1` would have no point if either
 * lacks one.
 *
 * @param label the label in graphs
 * @param id the beginning of the ids of the metrics, which must be unique in a graph
 */
export function sumOf(metrics: readonly IMetric[], label: string, id = 'm'): MathExpression {
  const usingMetrics = Object.fromEntries(metrics.map((metric, index) => [`${id}${index}`, metric]));
  const filled = Object.keys(usingMetrics).map((id) => `FILL(${id}, 0)`);
  return new MathExpression({ expression: `SUM([${filled.join(', ')}])`, usingMetrics, label, period: PERIOD });
}
