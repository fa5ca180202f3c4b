/** EvaluateTraces: one chunk of capture lines → assessments in MLflow. A direct invocation processes a whole capture file. */
// Must be the first import: in the process of a trial it is the only one that runs.
import '../../src/monitoring/evaluate/evaluate-trial.ts';
import type { Context } from 'aws-lambda';
import type { ChunkProgress, ChunkRequest } from '../../src/contract/payloads.ts';
import type { EvaluateReceipt } from '../../src/contract/receipts.ts';
import { type BatchJudging, connectBatchJudge, connectBudget, connectJudge } from '../../src/judge/connect.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { batchAnswers } from '../../src/monitoring/batch/answers.ts';
import { prepareChunk } from '../../src/monitoring/batch/prepare.ts';
import { partOf } from '../../src/monitoring/chunk/parts.ts';
import { sumEvaluations } from '../../src/monitoring/counts.ts';
import { evaluateChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { forEachChunkOf, readInvocation } from '../../src/monitoring/invocation.ts';
import { readEnvironment } from '../../src/settings/environment.ts';
import { logged } from '../../src/shared/logging.ts';
import { createS3Client, Storage } from '../../src/shared/storage.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const mlflow = connectMlflow(environment, storage.s3);
const judging = connectJudge(environment);
const budget = connectBudget(environment);
let batchJudging: BatchJudging | undefined;
const batchJudge = (): BatchJudging => {
  batchJudging ??= connectBatchJudge(environment);
  return batchJudging;
};

type Counts = ReturnType<typeof sumEvaluations> | { records: number; held: number };

export const handler = logged<unknown, Counts | (Counts & ChunkProgress)>(async (event, context: Context) => {
  const invocation = await readInvocation(event, storage, environment.WORK_BUCKET);
  const deps = {
    storage,
    store: await mlflow(),
    environment,
    requestId: context.awsRequestId,
    remainingMs: () => context.getRemainingTimeInMillis(),
  };
  const scoring = await judging();
  const evaluate = async (request: ChunkRequest): Promise<EvaluateReceipt> => {
    const limit = budget(request.run, request.options.budgetUsd);
    const limited = { ...deps, ...scoring, limit };
    if (request.phase !== 'apply') return evaluateChunk(request, limited);
    const { batchScorers: scorers } = batchJudge();
    const workBucket = environment.WORK_BUCKET;
    const openBatch = () => batchAnswers(request, { storage, workBucket, limit, ...batchJudge() });
    return evaluateChunk(request, { ...limited, scorers, openBatch });
  };
  if (invocation.kind === 'chunk' && invocation.request.phase === 'prepare') {
    const { run, options } = invocation.request;
    const limit = budget(run, options.budgetUsd);
    const { batchScorers: scorers, ...batch } = batchJudge();
    const prepared = await prepareChunk(invocation.request, { ...deps, ...scoring, ...batch, scorers, limit });
    const { records, held } = prepared;
    return { records, held: held.length, ...partOf(invocation.request).next };
  }
  if (invocation.kind === 'chunk') {
    const { request } = invocation;
    return { ...sumEvaluations([await evaluate(request)]), ...partOf(request).next };
  }
  const experiment = await deps.store.resolveExperiment(environment.MLFLOW_EXPERIMENT_NAME);
  return sumEvaluations(await forEachChunkOf(invocation.files, deps, experiment.id, evaluate));
});
