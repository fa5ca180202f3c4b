/** EvaluateTraces: one chunk of capture lines → assessments in MLflow. Invoked directly, a whole capture file. */
import type { Context } from 'aws-lambda';
import { readEnvironment } from '../common/environment.ts';
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import type { ChunkRequest, EvaluateReceipt } from '../contract.ts';
import { connectMlflow } from '../mlflow/connect.ts';
import { evaluateChunk, sumEvaluations } from '../run/evaluate-chunk.ts';
import { forEachChunkOf, parseInvocation } from '../run/invocation.ts';
import { connectBudget, connectJudge } from './judge.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const mlflow = connectMlflow(environment, storage.s3);
const judging = connectJudge(environment);
const budget = connectBudget(environment);

export const handler = logged<unknown, ReturnType<typeof sumEvaluations>>(async (event, context: Context) => {
  const invocation = parseInvocation(event);
  const deps = {
    storage,
    store: await mlflow(),
    environment,
    requestId: context.awsRequestId,
    remainingMs: () => context.getRemainingTimeInMillis(),
  };
  const scoring = await judging();
  const evaluate = (request: ChunkRequest) => {
    const limit = budget(request.run, request.options.budgetUsd);
    return evaluateChunk(request, { ...deps, ...scoring, ...(limit === undefined ? {} : { limit }) });
  };
  const receipts: EvaluateReceipt[] = [];
  if (invocation.kind === 'chunk') {
    receipts.push(await evaluate(invocation.request));
  } else {
    const experiment = await deps.store.resolveExperiment(environment.MLFLOW_EXPERIMENT_NAME);
    await forEachChunkOf(invocation.files, deps, experiment.id, async (request) => {
      receipts.push(await evaluate(request));
    });
  }
  return sumEvaluations(receipts);
});
