/** Lists what the shards of a replay have written to the work bucket. */

import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';

/** The objects of each shard by their names. */
export async function listShardFiles(
  storage: Storage,
  bucket: string,
  run: string,
): Promise<Map<number, Map<string, ObjectFacts>>> {
  const prefix = replayKeys.shardsPrefix(run);
  const shards = new Map<number, Map<string, ObjectFacts>>();
  for await (const object of storage.list(bucket, prefix)) {
    const [shard = '', name = ''] = object.key.slice(prefix.length).split('/');
    const files = shards.get(Number(shard)) ?? new Map<string, ObjectFacts>();
    shards.set(Number(shard), files.set(name, object));
  }
  return shards;
}

/** The claims of the shards that have started. */
export async function listClaims(storage: Storage, bucket: string, run: string): Promise<Map<number, ObjectFacts>> {
  const prefix = replayKeys.claimPrefix(run);
  const claims = new Map<number, ObjectFacts>();
  for await (const object of storage.list(bucket, prefix)) {
    claims.set(Number.parseInt(object.key.slice(prefix.length), 10), object);
  }
  return claims;
}
