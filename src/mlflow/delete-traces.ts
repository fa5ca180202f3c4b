/** Deletes traces; those that do not exist are passed over by the server. */

import { type RetryPolicy, withRetries } from '../shared/retry.ts';
import { anyReply } from './replies.ts';
import type { MlflowRest } from './rest.ts';

const PATH = '/api/2.0/mlflow/traces/delete-traces';
/** The most that MLflow takes in one request. */
const DELETED_A_REQUEST = 100;

export async function deleteTraces(
  rest: MlflowRest,
  experimentId: string,
  traceIds: readonly string[],
  retry: RetryPolicy = rest.retry,
): Promise<void> {
  for (let from = 0; from < traceIds.length; from += DELETED_A_REQUEST) {
    const json = { experiment_id: experimentId, request_ids: traceIds.slice(from, from + DELETED_A_REQUEST) };
    await withRetries(retry, () => rest.once({ method: 'POST', path: PATH, json }, anyReply));
  }
}
