/** LogTraces: one chunk of capture lines → traces in MLflow. Invoked directly, a whole capture file. */
// The first to be loaded, and in a trial's process the only one.
import '../run/log-trial.ts';
import type { Context } from 'aws-lambda';
import { readEnvironment } from '../common/environment.ts';
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import type { ChunkProgress, LogCounts, LogReceipt } from '../contract.ts';
import { connectMlflow } from '../mlflow/connect.ts';
import { forEachChunkOf, parseInvocation } from '../run/invocation.ts';
import { logChunk } from '../run/log-chunk.ts';
import { partOf } from '../run/parts.ts';
import { sumLogCounts } from '../run/receipts.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const mlflow = connectMlflow(environment, storage.s3);

export const handler = logged<unknown, LogCounts | (LogCounts & ChunkProgress)>(async (event, context: Context) => {
  const invocation = parseInvocation(event);
  const deps = {
    storage,
    store: await mlflow(),
    environment,
    requestId: context.awsRequestId,
    remainingMs: () => context.getRemainingTimeInMillis(),
  };
  if (invocation.kind === 'chunk') {
    const { request } = invocation;
    return { ...(await logChunk(request, deps)).counts, ...partOf(request).next };
  }
  const experiment = await deps.store.resolveExperiment(environment.MLFLOW_EXPERIMENT_NAME);
  const receipts: LogReceipt[] = [];
  await forEachChunkOf(invocation.files, deps, experiment.id, async (request) => {
    receipts.push(await logChunk(request, deps));
  });
  return sumLogCounts(receipts);
});
