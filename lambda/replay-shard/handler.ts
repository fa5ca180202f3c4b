/** ReplayShard: sends the requests of one shard at their scheduled times and measures them. It is never retried. */
import { connectRedaction } from '../../src/captures/redact/redaction.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { type ReplayShardRequest, replayShardRequestSchema } from '../../src/core/contract/replay.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readReplayEnvironment } from '../../src/core/settings/environment.ts';
import { replayShard, type ShardCounts } from '../../src/replay/cloud/shard/shard.ts';

const environment = readReplayEnvironment();
const storage = new Storage(createS3Client());
const redacted = connectRedaction(environment);

export const handler = logged<ReplayShardRequest, ShardCounts>(environment.STACK_PREFIX, async (event, context) =>
  replayShard(replayShardRequestSchema.parse(event), {
    storage,
    environment,
    redacted,
    remainingMs: () => context.getRemainingTimeInMillis(),
  }),
);
