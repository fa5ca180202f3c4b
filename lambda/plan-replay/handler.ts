/** PlanReplay: the execution's input → the schedule, cut into shards, in the work bucket. */
import type { Context } from 'aws-lambda';
import type { ReplayPlanRequest, ReplayPlanResult } from '../../src/contract/replay.ts';
import { createModelWatch } from '../../src/judge/model-check.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { planReplay } from '../../src/replay/cloud/plan/plan-replay.ts';
import { readEnvironment, readReplayEnvironment } from '../../src/settings/environment.ts';
import { logged, logger } from '../../src/shared/logging.ts';
import { createS3Client, Storage } from '../../src/shared/storage.ts';

const environment = readReplayEnvironment();
const settings = readEnvironment();
const storage = new Storage(createS3Client());
const mlflow = connectMlflow(settings, storage.s3);
const watchModel = createModelWatch(settings.BEDROCK_MODEL_ID, (error) =>
  logger.warn('The judge’s model could not be looked up', error as Error),
);
const checkJudgeModel: typeof watchModel = async () => {
  const check = await watchModel();
  if (check !== undefined) logger.warn(check.message, { check } as never);
  return check;
};

export const handler = logged<ReplayPlanRequest, ReplayPlanResult>((request, context: Context) =>
  planReplay(request, {
    storage,
    environment,
    evaluation: { settings, mlflow, checkJudgeModel },
    remainingMs: () => context.getRemainingTimeInMillis(),
  }),
);
