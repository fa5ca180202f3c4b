/** CloudWatch metrics of this stack, by AWS Lambda Powertools. */
import { Metrics, MetricUnit } from '@aws-lambda-powertools/metrics';
import { takeThrottles, takeWaits } from '../aws/throttles.ts';
import { RESOURCE_METRICS, THROTTLE_METRICS } from '../contract/names.ts';

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

/** Wraps a handler so that it publishes how often the services that it uses have throttled it, and how long it has chunks wait. */
export function countingThrottles<Request, Context, Result>(
  stackPrefix: string,
  handle: (request: Request, context: Context) => Promise<Result>,
): (request: Request, context: Context) => Promise<Result> {
  const metrics = createMetrics(stackPrefix);
  return async (request, context) => {
    try {
      return await handle(request, context);
    } finally {
      const counts = Object.entries({ ...takeThrottles(), chunks: takeWaits() }).filter(([, count]) => count > 0);
      for (const [by, count] of counts) {
        metrics.addMetric(THROTTLE_METRICS[by as keyof typeof THROTTLE_METRICS], MetricUnit.Count, count);
      }
      if (counts.length > 0) metrics.publishStoredMetrics();
    }
  };
}
