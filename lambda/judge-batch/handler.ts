/** JudgeBatch: starts the batch inference jobs of a run, and checks them until they have ended. */
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { JudgeBatchRequest, JudgeBatchResult } from '../../src/core/contract/payloads.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { isRedacted } from '../../src/core/settings/redact-setting.ts';
import { firstModel, parseJudgeId } from '../../src/judge/judge-id.ts';
import { checkBatch } from '../../src/monitoring/batch/jobs.ts';

const environment = readEnvironment();
const dependencies = {
  storage: new Storage(createS3Client()),
  workBucket: environment.WORK_BUCKET,
  bedrock: new BedrockClient({}),
  modelId: parseJudgeId(firstModel(environment)).name,
  roleArn: environment.BATCH_ROLE_ARN ?? '',
  pollSeconds: environment.BATCH_POLL_SECONDS,
  isRedacted: isRedacted(environment),
};

const handle = ({ run: { name } }: JudgeBatchRequest): Promise<JudgeBatchResult> => checkBatch(name, dependencies);

export const handler = logged(environment.STACK_PREFIX, handle);
