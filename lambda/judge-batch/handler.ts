/** JudgeBatch: packs the requests of a run into batch inference jobs, and starts and checks these until they have ended. */
import { BedrockClient } from '@aws-sdk/client-bedrock';
import type { Context } from 'aws-lambda';
import type { JudgeBatchRequest, JudgeBatchResult } from '../../src/contract/payloads.ts';
import { firstModel, parseJudgeId } from '../../src/judge/judge-id.ts';
import { checkBatch, startBatch } from '../../src/monitoring/batch/jobs.ts';
import { readEnvironment } from '../../src/settings/environment.ts';
import { logged } from '../../src/shared/logging.ts';
import { countingThrottles } from '../../src/shared/metrics.ts';
import { createS3Client, Storage } from '../../src/shared/storage.ts';

const environment = readEnvironment();
const dependencies = {
  storage: new Storage(createS3Client()),
  workBucket: environment.WORK_BUCKET,
  bedrock: new BedrockClient({}),
  modelId: parseJudgeId(firstModel(environment)).name,
  roleArn: environment.BATCH_ROLE_ARN ?? '',
  pollSeconds: environment.BATCH_POLL_SECONDS,
};

const handle = ({ action, run: { name } }: JudgeBatchRequest, context: Context): Promise<JudgeBatchResult> => {
  const deps = { ...dependencies, remainingMs: () => context.getRemainingTimeInMillis() };
  return (action === 'start' ? startBatch : checkBatch)(name, deps);
};

export const handler = logged(countingThrottles(environment.STACK_PREFIX, handle));
