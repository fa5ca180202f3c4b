/** SummarizeReplay: the files of all shards → one result set, and whether the execution must fail. */
import type { Context } from 'aws-lambda';
import type { SummarizeReplayRequest, SummarizeReplayResult } from '../../src/contract/replay.ts';
import { summarizeReplay } from '../../src/replay/cloud/summarize/summarize.ts';
import { readReplayEnvironment } from '../../src/settings/environment.ts';
import { logged } from '../../src/shared/logging.ts';
import { createS3Client, Storage } from '../../src/shared/storage.ts';

const environment = readReplayEnvironment();
const storage = new Storage(createS3Client());

export const handler = logged<SummarizeReplayRequest, SummarizeReplayResult>((request, context: Context) =>
  summarizeReplay(request, {
    storage,
    workBucket: environment.WORK_BUCKET,
    remainingMs: () => context.getRemainingTimeInMillis(),
  }),
);
