/** Deletes traces. The server ignores traces that do not exist. */

import { type RetryPolicy, withRetries } from '../core/process/retry.ts';
import { batches } from '../core/values/batches.ts';
import { anyReply } from './replies.ts';
import type { MlflowRest } from './rest.ts';

const PATH = '/api/2.0/mlflow/traces/delete-traces';
/** MLflow's limit. */
const TRACES_PER_REQUEST = 100;

export async function deleteTraces(
  rest: MlflowRest,
  experimentId: string,
  traceIds: readonly string[],
  retry: RetryPolicy = rest.retry,
): Promise<void> {
  for (const batch of batches(traceIds, TRACES_PER_REQUEST)) {
    const json = { experiment_id: experimentId, request_ids: batch };
    await withRetries(retry, () => rest.once({ method: 'POST', path: PATH, json }, anyReply));
  }
}
