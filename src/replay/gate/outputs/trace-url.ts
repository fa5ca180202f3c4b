/** Where a person can look at a replayed request in MLflow. */

import { traceUrl } from '../../../mlflow/trace-url.ts';
import type { RunFacts } from '../../compare/compare-runs.ts';
import { replayTraceIdOf } from '../../publish/replay-trace.ts';

/** @param requestId id of the request in the run */
export function replayTraceUrl({ run, mlflow }: RunFacts, requestId: string | undefined): string | undefined {
  if (mlflow === undefined || requestId === undefined) return undefined;
  return traceUrl(mlflow.url, mlflow.experimentId, replayTraceIdOf(mlflow.experimentId, run, requestId));
}
