/**
 * EvaluateTraces: one chunk of capture lines → traces with their assessments in MLflow. A direct invocation evaluates the
 * traces of a whole capture file.
 */

import { connectRedaction } from '../../src/captures/redact/redaction.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { ChunkRequest } from '../../src/core/contract/payloads.ts';
import type { EvaluateReceipt } from '../../src/core/contract/receipts.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { AdaptiveLimiter } from '../../src/judge/calls/limiter.ts';
import { connectBatchJudge, connectBudget, connectJudge, judgeOf } from '../../src/judge/connect.ts';
import { connectFunctions } from '../../src/judge/functions/connect.ts';
import { connectLearned } from '../../src/judge/models/learned.ts';
import { PAIRWISE_SCORER, pairwiseJudge } from '../../src/judge/pairwise.ts';
import { connectLimits } from '../../src/limits/limits.ts';
import { putAll } from '../../src/limits/many-items.ts';
import { LimitsTable, limitsTable, tableClient } from '../../src/limits/table.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { batchAnswers } from '../../src/monitoring/batch/answers.ts';
import { prepareChunk } from '../../src/monitoring/batch/prepare.ts';
import type { ChunkDependencies } from '../../src/monitoring/chunk/attempt.ts';
import { sumEvaluations } from '../../src/monitoring/counts.ts';
import { evaluateChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { pairReader } from '../../src/monitoring/evaluate/reply-pair.ts';
import { handleChunks } from '../../src/monitoring/invocation.ts';

/** Returns a function that creates a value on its first call. */
const lazily = <T>(make: () => T): (() => T) => {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
};

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const work = { storage, workBucket: environment.WORK_BUCKET };
const limiter = new AdaptiveLimiter();
const limits = connectLimits(environment, limiter);
const learned = connectLearned(environment);
const settings = { ...environment, shared: { limiter, limits: limits.judge, learned: learned.of } };
const mlflow = connectMlflow(environment, storage.s3, limits.mlflow);
const judging = lazily(() => connectJudge(settings));
const judgeOfPairs = lazily(() => judgeOf(settings));
/** No preference between two replies fails, so a cascade would ask both models. */
const pairs = ({ environment: redacted }: ChunkDependencies) => ({
  judge: pairwiseJudge(judgeOfPairs(), pairReader(storage, redacted)),
  scorers: [PAIRWISE_SCORER],
  always: () => undefined,
});
const budget = connectBudget(environment);
const answers = new LimitsTable(tableClient(), environment.ANSWERS_TABLE ?? '');
const redacted = connectRedaction(environment);
const connected = { storage, redacted, limits, mlflow, table: limitsTable(environment) };
const functionsOf = connectFunctions({ limits, limiter, table: connected.table });
const batchJudging = lazily(() => connectBatchJudge(settings));

async function processChunk(request: ChunkRequest, deps: ChunkDependencies) {
  const { options, phase, run } = request;
  const limit = budget(run, options.budgetUsd);
  const limited = { ...deps, ...(options.replay ? pairs(deps) : judging()), limit, answers, putAll };
  const withFunctions = async <D extends Pick<typeof limited, 'scorers'>>(all: D) => ({
    ...all,
    ...(await functionsOf(all.scorers, run, limit, options.functions)),
  });
  if (phase === undefined) return evaluateChunk(request, await withFunctions(limited));
  const { batchScorers: scorers, judge, ...batch } = batchJudging();
  if (phase === 'prepare') return prepareChunk(request, { ...limited, ...batch, judge, scorers });
  const openBatch = () => batchAnswers(request, { ...work, limit: limited.limit, ...batch });
  return evaluateChunk(request, await withFunctions({ ...limited, judge, scorers, openBatch }));
}

// A direct invocation evaluates traces that exist. It has no phase, so that each result is a receipt.
const sum = (results: unknown[]) => sumEvaluations(results as EvaluateReceipt[]);

export const handler = logged<unknown, unknown>(environment.STACK_PREFIX, (event, context) =>
  handleChunks<unknown, ReturnType<typeof sum>>(event, context, connected, processChunk, sum, {
    traced: true,
  }).finally(learned.save),
);
