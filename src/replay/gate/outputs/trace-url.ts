/** Where a person can look at a replayed request in MLflow. */
import type { RunFacts } from '../../compare/compare-runs.ts';
import { replayTraceIdOf } from '../../publish/replay-trace.ts';

/**
 * Returns the address of a request's trace in MLflow's web page; `undefined` if the run was not logged there, or the server
 * has no page without a login through AWS.
 *
 * @param requestId id of the request in the run
 */
export function traceUrl({ run, mlflow }: RunFacts, requestId: string | undefined): string | undefined {
  if (mlflow?.url === undefined || requestId === undefined || !/^https?:/.test(mlflow.url)) return undefined;
  if (!URL.canParse(mlflow.url)) return undefined;
  const { origin, pathname } = new URL(mlflow.url);
  const path = `experiments/${encodeURIComponent(mlflow.experimentId)}/traces`;
  const trace = replayTraceIdOf(mlflow.experimentId, run, requestId);
  return `${origin}${pathname.replace(/\/$/, '')}/#/${path}?selectedEvaluationId=${trace}&startTimeLabel=ALL`;
}
