/** Where a person can look at a replayed request in MLflow. */

import { exchangeTraceId } from '../../../captures/trace/exchange.ts';
import { traceUrl } from '../../../mlflow/trace-url.ts';
import type { RunFacts } from '../../compare/compare-runs.ts';

/** @param requestId id of the request in the run */
export function replayTraceUrl({ run, mlflow }: RunFacts, requestId: string | undefined): string | undefined {
  if (mlflow === undefined || requestId === undefined) return undefined;
  return traceUrl(mlflow.url, mlflow.experimentId, exchangeTraceId(mlflow.experimentId, run, requestId));
}
