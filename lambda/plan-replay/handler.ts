/** PlanReplay: the execution's input → the schedule, cut into shards, in the work bucket. */
import type { Context } from 'aws-lambda';
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import { readReplayEnvironment } from '../replay/cloud/environment.ts';
import { planReplay } from '../replay/cloud/plan-replay.ts';
import type { ReplayPlanRequest, ReplayPlanResult } from '../replay-contract.ts';

const environment = readReplayEnvironment();
const storage = new Storage(createS3Client());

export const handler = logged<ReplayPlanRequest, ReplayPlanResult>((request, context: Context) =>
  planReplay(request, { storage, environment, remainingMs: () => context.getRemainingTimeInMillis() }),
);
