/** EvaluateReplay: writes the traces and the judge's verdicts of one shard of a replay. It is called until it is done. */
import type { Context } from 'aws-lambda';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import {
  type EvaluateReplayRequest,
  type EvaluateReplayResult,
  replayShardRequestSchema,
} from '../../src/core/contract/replay.ts';
import { logged } from '../../src/core/process/logging.ts';
import { countingThrottles } from '../../src/core/process/metrics.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { connectBudget, connectJudge, judgeOf } from '../../src/judge/connect.ts';
import { connectLimits } from '../../src/limits/limits.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { evaluateReplay } from '../../src/replay/cloud/evaluate/evaluate.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const limits = connectLimits(environment);
const mlflow = connectMlflow(environment, storage.s3, limits.mlflow);
// A cascade is for verdicts on one reply: no preference between two replies fails.
const judging = connectJudge({ ...environment, shared: { limits: limits.judge } }, judgeOf);
const limit = connectBudget(environment);

export const handler = logged<EvaluateReplayRequest, EvaluateReplayResult>(
  countingThrottles(environment.STACK_PREFIX, (event, context: Context) =>
    evaluateReplay(replayShardRequestSchema.parse(event), {
      storage,
      workBucket: environment.WORK_BUCKET,
      mlflow,
      judge: async () => judging().judge,
      limit,
      remainingMs: () => context.getRemainingTimeInMillis(),
    }),
  ),
);
