/** ReplayShard: sends the requests of one shard at their scheduled times and measures them. It is never retried. */
import type { Context } from 'aws-lambda';
import { type ReplayShardRequest, replayShardRequestSchema } from '../../src/contract/replay.ts';
import { replayShard, type ShardCounts } from '../../src/replay/cloud/shard/shard.ts';
import { readReplayEnvironment } from '../../src/settings/environment.ts';
import { logged } from '../../src/shared/logging.ts';
import { createS3Client, Storage } from '../../src/shared/storage.ts';

const environment = readReplayEnvironment();
const storage = new Storage(createS3Client());

export const handler = logged<ReplayShardRequest, ShardCounts>((event, context: Context) =>
  replayShard(replayShardRequestSchema.parse(event), {
    storage,
    environment,
    remainingMs: () => context.getRemainingTimeInMillis(),
  }),
);
