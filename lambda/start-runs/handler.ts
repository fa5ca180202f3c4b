/** StartRuns: starts one execution for all queued events of new capture files, or of new label files. */
import { SFNClient } from '@aws-sdk/client-sfn';
import type { SQSBatchResponse } from 'aws-lambda';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { captureScope } from '../../src/judge/capture-scope.ts';
import { type QueuedEvent, startRun } from '../../src/monitoring/start-run.ts';
import { startOnce } from '../start-once.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const stepFunctions = new SFNClient({});

export const handler = logged<{ Records: QueuedEvent[] }, SQSBatchResponse>(environment.STACK_PREFIX, ({ Records }) =>
  startRun(Records, {
    storage,
    workBucket: environment.WORK_BUCKET,
    excludes: captureScope(environment).excludes,
    start: (name, input) => startOnce(stepFunctions, environment.STATE_MACHINE_ARN, name, input),
  }),
);
