/**
 * EvaluateTraces: one chunk of capture lines → traces with their assessments in MLflow. A direct invocation evaluates the
 * traces of a whole capture file.
 */
import type { Context } from 'aws-lambda';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { ChunkProgress, ChunkRequest } from '../../src/core/contract/payloads.ts';
import type { EvaluateReceipt } from '../../src/core/contract/receipts.ts';
import { countingThrottles, logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { AdaptiveLimiter } from '../../src/judge/calls/limiter.ts';
import { type BatchJudging, connectBatchJudge, connectBudget, connectJudge, judgeOf } from '../../src/judge/connect.ts';
import { PAIRWISE_SCORER, pairwiseJudge } from '../../src/judge/pairwise.ts';
import { connectLimits } from '../../src/limits/limits.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { batchAnswers } from '../../src/monitoring/batch/answers.ts';
import { type PreparedChunk, prepareChunk } from '../../src/monitoring/batch/prepare.ts';
import { sumEvaluations } from '../../src/monitoring/counts.ts';
import { connectAnswers } from '../../src/monitoring/evaluate/answer-table.ts';
import { evaluateChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { pairReader } from '../../src/monitoring/evaluate/reply-pair.ts';
import { forEachChunkOf, readInvocation } from '../../src/monitoring/invocation.ts';
import { stackExperiment } from '../../src/monitoring/stack-experiment.ts';
import { withinLimits } from '../../src/monitoring/within-limits.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const work = { storage, workBucket: environment.WORK_BUCKET };
const limiter = new AdaptiveLimiter();
const limits = connectLimits(environment, limiter);
const settings = { ...environment, shared: { limiter, limits: limits.judge } };
const mlflow = connectMlflow(environment, storage.s3, limits.mlflow);
const judging = connectJudge(settings);
/** Made for the first replay. No preference between two replies fails, so a cascade would ask both models. */
let pairJudge: ReturnType<typeof pairwiseJudge> | undefined;
const pairs = () => {
  pairJudge ??= pairwiseJudge(judgeOf(settings), pairReader(storage, environment));
  return { judge: pairJudge, scorers: [PAIRWISE_SCORER], always: () => undefined };
};
const budget = connectBudget(environment);
const answersOf = connectAnswers(environment.ANSWERS_TABLE, work);
const table = limitsTable(environment);
let batchJudging: BatchJudging | undefined;
const batchJudge = (): BatchJudging => {
  batchJudging ??= connectBatchJudge(settings);
  return batchJudging;
};

type Result = ReturnType<typeof sumEvaluations> | ChunkProgress;

const handle = async (event: unknown, context: Context): Promise<Result> => {
  const invocation = await readInvocation(event, work);
  const deps = {
    storage,
    store: await mlflow(),
    table,
    environment,
    requestId: context.awsRequestId,
    remainingMs: () => context.getRemainingTimeInMillis(),
  };
  const dependenciesOf = (request: ChunkRequest) => ({
    ...{ ...deps, ...(request.options.replay ? pairs() : judging()) },
    limit: budget(request.run, request.options.budgetUsd),
    answers: answersOf(request, { requestId: deps.requestId, untilMs: Date.now() + deps.remainingMs() }),
  });
  const evaluate = (request: ChunkRequest): Promise<EvaluateReceipt> => {
    const limited = dependenciesOf(request);
    if (request.phase !== 'apply') return evaluateChunk(request, limited);
    const { batchScorers: scorers, ...batch } = batchJudge();
    const { limit } = limited;
    const openBatch = () => batchAnswers(request, { ...work, limit, ...batch });
    return evaluateChunk(request, { ...limited, scorers, openBatch });
  };
  const prepare = (request: ChunkRequest): Promise<PreparedChunk> => {
    const { batchScorers: scorers, ...batch } = batchJudge();
    return prepareChunk(request, { ...dependenciesOf(request), ...batch, scorers });
  };
  if (invocation.kind === 'chunk') {
    const { request } = invocation;
    return withinLimits(limits, request, () => (request.phase === 'prepare' ? prepare(request) : evaluate(request)));
  }
  const experiment = await stackExperiment(deps.store, environment);
  return sumEvaluations(
    await forEachChunkOf(invocation.files, deps, experiment.id, (request) =>
      evaluate({ ...request, chunk: { ...request.chunk, traced: true } }),
    ),
  );
};

export const handler = logged(countingThrottles(environment.STACK_PREFIX, handle));
