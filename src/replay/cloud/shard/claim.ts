/** The claim of a shard, which ensures that it is sent at most once. */

import type { Storage } from '../../../core/aws/storage.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError } from '../../../core/errors/errors.ts';

interface ShardClaim {
  run: string;
  shard: number;
  claimedAtMs: number;
}

/**
 * Claims the shard before its first request. A second attempt is indistinguishable from a retry after a lost answer to the
 * conditional write. Both fail: a shard that is reported as lost is better than requests that are sent twice.
 *
 * @throws PermanentError `ShardAlreadyClaimed`
 */
export async function claimShard(storage: Storage, bucket: string, claim: ShardClaim): Promise<void> {
  const key = replayKeys.claim(claim.run, claim.shard);
  if (await storage.putJsonIf(bucket, key, claim)) return;
  throw new PermanentError('ShardAlreadyClaimed', 'The shard was started before; its requests are not sent twice', {
    got: `shard ${claim.shard} of ${claim.run}`,
    where: `s3://${bucket}/${key}`,
  });
}
