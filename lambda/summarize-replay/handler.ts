/** SummarizeReplay: the files of all shards → one result set, and whether the execution has to fail. */
import type { Context } from 'aws-lambda';
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import { readReplayEnvironment } from '../replay/cloud/environment.ts';
import { summarizeReplay } from '../replay/cloud/summarize/summarize.ts';
import type { SummarizeReplayRequest, SummarizeReplayResult } from '../replay-contract.ts';

const environment = readReplayEnvironment();
const storage = new Storage(createS3Client());

export const handler = logged<SummarizeReplayRequest, SummarizeReplayResult>((request, context: Context) =>
  summarizeReplay(request, {
    storage,
    workBucket: environment.WORK_BUCKET,
    remainingMs: () => context.getRemainingTimeInMillis(),
  }),
);
