/** A shard is sent once: nobody retries it, and whoever tries all the same is stopped here. */

import { replayKeys } from '../../../contract/work-keys.ts';
import { PermanentError } from '../../../shared/errors.ts';
import type { Storage } from '../../../shared/storage.ts';

interface ShardClaim {
  run: string;
  shard: number;
  claimedAtMs: number;
}

/**
 * To be called before the first request. Whether an answer to the conditional write got lost cannot be told from a
 * second try, so both count as one: rather a shard that is reported as lost than requests that are sent twice.
 *
 * @throws PermanentError `ShardAlreadyClaimed`
 */
export async function claimShard(storage: Storage, bucket: string, claim: ShardClaim): Promise<void> {
  const key = replayKeys.claim(claim.run, claim.shard);
  if (await storage.putJsonIf(bucket, key, claim)) return;
  throw new PermanentError('ShardAlreadyClaimed', 'This shard has been begun before; its requests are not sent twice', {
    got: `shard ${claim.shard} of ${claim.run}`,
    where: `s3://${bucket}/${key}`,
  });
}
