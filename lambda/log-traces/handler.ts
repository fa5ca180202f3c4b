/** LogTraces: one chunk of capture lines → traces in MLflow. A direct invocation processes a whole capture file. */
import type { Context } from 'aws-lambda';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { ChunkProgress, ChunkRequest } from '../../src/core/contract/payloads.ts';
import type { LogCounts } from '../../src/core/contract/receipts.ts';
import { logged } from '../../src/core/process/logging.ts';
import { countingThrottles } from '../../src/core/process/metrics.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { connectLimits } from '../../src/limits/limits.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { sumLogCounts } from '../../src/monitoring/counts.ts';
import { AnswerJournal } from '../../src/monitoring/evaluate/answer-journal.ts';
import { forEachChunkOf, readInvocation } from '../../src/monitoring/invocation.ts';
import { logChunk } from '../../src/monitoring/log/log-chunk.ts';
import { connectTurns } from '../../src/monitoring/log/write-turns.ts';
import { withinLimits } from '../../src/monitoring/within-limits.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const limits = connectLimits(environment);
const mlflow = connectMlflow(environment, storage.s3, limits.mlflow);
const turnsOf = connectTurns(environment.BUDGET_TABLE);

type Result = LogCounts | ChunkProgress;

const handle = async (event: unknown, context: Context): Promise<Result> => {
  const invocation = await readInvocation(event, storage, environment.WORK_BUCKET);
  const deps = {
    storage,
    store: await mlflow(),
    environment,
    requestId: context.awsRequestId,
    remainingMs: () => context.getRemainingTimeInMillis(),
  };
  const log = (request: ChunkRequest) => {
    const written = new AnswerJournal(storage, environment.WORK_BUCKET, request, deps.requestId);
    const turns = turnsOf(request, Date.now() + deps.remainingMs());
    return logChunk(request, { ...deps, turns, written });
  };
  if (invocation.kind === 'chunk') {
    const { request } = invocation;
    return withinLimits(limits, request, async () => (await log(request)).counts);
  }
  const experiment = await deps.store.resolveExperiment(environment.MLFLOW_EXPERIMENT_NAME);
  return sumLogCounts(await forEachChunkOf(invocation.files, deps, experiment.id, log));
};

export const handler = logged(countingThrottles(environment.STACK_PREFIX, handle));
