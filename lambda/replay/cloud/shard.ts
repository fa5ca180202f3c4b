/** ReplayShard: one shard of a replay, from its schedule in the work bucket to its files there. */
import { PermanentError } from '../../common/errors.ts';
import type { Storage } from '../../common/storage.ts';
import { type ReplayShardRequest, replayKeys } from '../../replay-contract.ts';
import { claimShard } from './claim.ts';
import type { ReplayEnvironment } from './environment.ts';
import type { ReplayPlan } from './plan.ts';

export interface ShardDependencies {
  storage: Storage;
  environment: ReplayEnvironment;
  remainingMs(): number;
}

/** What the Map gets to see of a shard. */
export interface ShardCounts {
  shard: number;
  sent: number;
  failed: number;
  unsent: number;
  lateMs: number;
}

export async function replayShard(
  { run, shard }: ReplayShardRequest,
  { storage, environment }: ShardDependencies,
): Promise<ShardCounts> {
  const bucket = environment.WORK_BUCKET;
  const plan = await storage.getJson<ReplayPlan>(bucket, replayKeys.plan(run));
  if (!plan) throw new PermanentError('ReplayNotPlanned', 'The replay has no plan', { got: run });
  await claimShard(storage, bucket, { run, shard, claimedAtMs: Date.now() });
  return { shard, sent: 0, failed: 0, unsent: 0, lateMs: 0 };
}
