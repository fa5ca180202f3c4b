/** The CloudWatch metrics of a run, by AWS Lambda Powertools. */
import { Metrics } from '@aws-lambda-powertools/metrics';
import { RESOURCE_METRICS } from '../contract/names.ts';

/**
 * Returns the metrics of this stack; the dimension `StackPrefix` distinguishes the stacks of one account. It is the only
 * dimension: Powertools adds `service` by default, and no alarm of the stack watches a metric with two dimensions.
 */
export function createMetrics(stackPrefix: string): Metrics {
  const metrics = new Metrics({ namespace: RESOURCE_METRICS.namespace });
  metrics.clearDefaultDimensions();
  metrics.setDefaultDimensions({ [RESOURCE_METRICS.dimension]: stackPrefix });
  return metrics;
}
