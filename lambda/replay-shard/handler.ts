/** ReplayShard: the requests of one shard, sent at their moments and measured. It is never tried twice. */
import type { Context } from 'aws-lambda';
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import { readReplayEnvironment } from '../replay/cloud/environment.ts';
import { replayShard, type ShardCounts } from '../replay/cloud/shard/shard.ts';
import { type ReplayShardRequest, replayShardRequestSchema } from '../replay-contract.ts';

const environment = readReplayEnvironment();
const storage = new Storage(createS3Client());

export const handler = logged<ReplayShardRequest, ShardCounts>((event, context: Context) =>
  replayShard(replayShardRequestSchema.parse(event), {
    storage,
    environment,
    remainingMs: () => context.getRemainingTimeInMillis(),
  }),
);
