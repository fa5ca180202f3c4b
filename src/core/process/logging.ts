/** Structured logs and CloudWatch metrics of the functions, by AWS Lambda Powertools. */
import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics, MetricUnit } from '@aws-lambda-powertools/metrics';
import type { Context } from 'aws-lambda';
import { RESOURCE_METRICS, THROTTLE_METRICS } from '../contract/metric-names.ts';
import { bareError, toNamedError } from '../errors/errors.ts';
import { heapFigures } from './heap.ts';
import { drainThrottles } from './throttles.ts';

/** Logs of an error only the fields that cannot contain captured content. */
export const logger = new Logger({
  jsonReplacerFn: (_, value) => (value instanceof Error ? bareError(value) : value),
});

/** The beginning of the message with the heap's figures, by which the canary finds it. */
export const HEAP_MESSAGE = 'V8 heap';

/** Logs once per process whether V8 took the limit of the stack: the runtime's own flags would win over NODE_OPTIONS. */
function logHeap(): void {
  const figures = heapFigures();
  if (figures.ignored) logger.warn(`${HEAP_MESSAGE}: the limit differs from NODE_OPTIONS`, { ...figures });
  else logger.info(HEAP_MESSAGE, { ...figures });
}

/**
 * Wraps a handler so that it logs its request, its result, and every failure with name, message and causes. It throws a
 * bare error, because Lambda's runtime logs every field of an error and Step Functions stores its stack in the history of
 * the execution. A request contains pointers to captures, never their payloads. The first request also logs V8's heap, and
 * each publishes how often it was throttled.
 */
export function logged<Request, Result>(
  stackPrefix: string,
  handle: (request: Request, context: Context) => Promise<Result>,
): (request: Request, context: Context) => Promise<Result> {
  const metrics = createMetrics(stackPrefix);
  let isCold = true;
  return async (request, context) => {
    logger.addContext(context);
    if (isCold) logHeap();
    isCold = false;
    const startedAt = Date.now();
    try {
      const result = await handle(request, context);
      logger.info('done', { request, result, milliseconds: Date.now() - startedAt } as never);
      return result;
    } catch (error) {
      const failure = error instanceof Error ? error : toNamedError(error);
      logger.error('failed', { request, milliseconds: Date.now() - startedAt, error: failure } as never);
      throw bareError(error);
    } finally {
      publishThrottles(metrics);
    }
  };
}

/**
 * Returns the metrics of this stack. The dimension `StackPrefix` distinguishes the stacks of one account. It is the
 * only dimension: Powertools adds `service` by default, and no alarm of the stack watches a metric with two dimensions.
 */
export function createMetrics(stackPrefix: string): Metrics {
  const metrics = new Metrics({ namespace: RESOURCE_METRICS.namespace });
  metrics.clearDefaultDimensions();
  metrics.setDefaultDimensions({ [RESOURCE_METRICS.dimension]: stackPrefix });
  return metrics;
}

/** Publishes how often the services that the function uses have throttled it, and how long it has chunks wait. */
function publishThrottles(metrics: Metrics): void {
  const counts = Object.entries(drainThrottles()).filter(([, count]) => count > 0);
  for (const [by, count] of counts) {
    metrics.addMetric(THROTTLE_METRICS[by as keyof typeof THROTTLE_METRICS], MetricUnit.Count, count);
  }
  if (counts.length > 0) metrics.publishStoredMetrics();
}
