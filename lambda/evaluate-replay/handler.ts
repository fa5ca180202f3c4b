/** EvaluateReplay: the traces and the judge's verdicts of one shard of a replay, called again until it is done. */
import type { Context } from 'aws-lambda';
import { readEnvironment } from '../common/environment.ts';
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import { connectBudget, connectJudge } from '../judge/connect.ts';
import { connectMlflow } from '../mlflow/connect.ts';
import { evaluateReplay } from '../replay/cloud/evaluate/evaluate.ts';
import { type EvaluateReplayRequest, type EvaluateReplayResult, replayShardRequestSchema } from '../replay-contract.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const mlflow = connectMlflow(environment, storage.s3);
const judging = connectJudge(environment);
const limit = connectBudget(environment);

export const handler = logged<EvaluateReplayRequest, EvaluateReplayResult>((event, context: Context) =>
  evaluateReplay(replayShardRequestSchema.parse(event), {
    storage,
    workBucket: environment.WORK_BUCKET,
    mlflow,
    judge: async () => (await judging()).judge,
    limit,
    remainingMs: () => context.getRemainingTimeInMillis(),
  }),
);
