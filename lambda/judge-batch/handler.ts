/** JudgeBatch: starts the batch inference jobs of a run, and looks at them until they have ended. */
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { readEnvironment } from '../common/environment.ts';
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import type { JudgeBatchRequest, JudgeBatchResult } from '../contract.ts';
import { checkBatch, startBatch } from '../run/batch-jobs.ts';

const environment = readEnvironment();
const dependencies = {
  storage: new Storage(createS3Client()),
  workBucket: environment.WORK_BUCKET,
  bedrock: new BedrockClient({}),
  modelId: environment.BEDROCK_MODEL_ID,
  roleArn: environment.BATCH_ROLE_ARN ?? '',
  pollSeconds: environment.BATCH_POLL_SECONDS,
};

export const handler = logged<JudgeBatchRequest, JudgeBatchResult>(({ action, run }) =>
  action === 'start' ? startBatch(run.name, dependencies) : checkBatch(run.name, dependencies),
);
