/** LogTraces: one chunk of capture lines → traces in MLflow. A direct invocation processes a whole capture file. */
import type { Context } from 'aws-lambda';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { ChunkProgress, ChunkRequest } from '../../src/core/contract/payloads.ts';
import type { LogCounts } from '../../src/core/contract/receipts.ts';
import { countingThrottles, logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { connectLimits } from '../../src/limits/limits.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { sumLogCounts } from '../../src/monitoring/counts.ts';
import { forEachChunkOf, readInvocation } from '../../src/monitoring/invocation.ts';
import { logChunk } from '../../src/monitoring/log/log-chunk.ts';
import { stackExperiment } from '../../src/monitoring/stack-experiment.ts';
import { withinLimits } from '../../src/monitoring/within-limits.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const limits = connectLimits(environment);
const mlflow = connectMlflow(environment, storage.s3, limits.mlflow);
const table = limitsTable(environment);

type Result = LogCounts | ChunkProgress;

const handle = async (event: unknown, context: Context): Promise<Result> => {
  const invocation = await readInvocation(event, { storage, workBucket: environment.WORK_BUCKET });
  const deps = {
    storage,
    store: await mlflow(),
    table,
    environment,
    requestId: context.awsRequestId,
    remainingMs: () => context.getRemainingTimeInMillis(),
  };
  const log = (request: ChunkRequest) => logChunk(request, deps);
  if (invocation.kind === 'chunk') {
    const { request } = invocation;
    return withinLimits(limits, request, () => log(request));
  }
  const experiment = await stackExperiment(deps.store, environment);
  return sumLogCounts(await forEachChunkOf(invocation.files, deps, experiment.id, log));
};

export const handler = logged(countingThrottles(environment.STACK_PREFIX, handle));
