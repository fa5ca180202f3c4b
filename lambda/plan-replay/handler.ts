/** PlanReplay: the execution's input → the schedule, split into shards, in the work bucket. */
import { connectRedaction } from '../../src/captures/redact/redaction.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { ReplayPlanRequest, ReplayPlanResult } from '../../src/core/contract/replay.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readReplayEnvironment } from '../../src/core/settings/environment.ts';
import { watchJudgeModels } from '../../src/judge/model-watch.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { planReplay } from '../../src/replay/cloud/plan/plan-replay.ts';

const environment = readReplayEnvironment();
const storage = new Storage(createS3Client());
const mlflow = connectMlflow(environment, storage.s3);
const redacted = connectRedaction(environment);
const checkJudgeModel = watchJudgeModels([environment.BEDROCK_MODEL_ID]);

export const handler = logged<ReplayPlanRequest, ReplayPlanResult>(environment.STACK_PREFIX, (request, context) =>
  planReplay(request, {
    storage,
    environment,
    mlflow,
    checkJudgeModel,
    redacted,
    remainingMs: () => context.getRemainingTimeInMillis(),
  }),
);
