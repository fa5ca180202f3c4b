/** Adds up the results of all shards, and finds shards with missing results. */

import type { Storage } from '../../../core/aws/storage.ts';
import type { NamedError } from '../../../core/contract/receipts.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { toNamedError } from '../../../core/errors/errors.ts';
import { inOrder } from '../../../core/process/concurrency.ts';
import { ReplyQualityTally } from '../../compare/quality.ts';
import { ReportCollector } from '../../measure/report-collector.ts';
import { RunStats } from '../../measure/run-stats.ts';
import { unreadOf } from '../../results/result-set.ts';
import type { ShardResult } from '../shard/shard-results.ts';
import { stopMark } from '../work-bucket/stop-order.ts';
import { listShardFiles, SHARD_FILES, type ShardPlan, type StoredPlan } from '../work-bucket/stored-plan.ts';

type MissingShard = Pick<ShardPlan, 'shard' | 'requests'>;

/** A shard without a valid result. */
interface LostShard extends MissingShard {
  /** Whether the shard may have sent some or all of its requests. */
  claimed: boolean;
  failure?: NamedError;
}

/** A shard that measured only some of its requests. */
interface IncompleteShard extends MissingShard, Pick<ShardResult, 'unsent' | 'stopped'> {
  /** Requests whose captures could no longer be read. */
  unread: number;
}

/** A shard that starts later than this is named. Smaller delays are only in the figures of the schedule lag. */
const LATE_MS = 100;

/** The sum of the measurements of all shards. */
export type Collected = ReturnType<typeof nothingCollected>;

/** @param stop time of the stop order, epoch ms */
const nothingCollected = ({ skipped, startAtEpochMs }: StoredPlan, stop: number | undefined) => ({
  stats: new RunStats(),
  report: new ReportCollector(),
  replies: new ReplyQualityTally(),
  skippedReasons: new Map(Object.entries(skipped)),
  /** `sent`, `unsent`, `skippedByShards` and the requests of lost shards add up to the schedule. */
  sent: 0,
  unsent: 0,
  skippedByShards: 0,
  stop,
  /** Whether the stop order kept any request from being sent or answered. */
  wasCancelled: false,
  lost: [] as LostShard[],
  /** Shards that did not start because the replay was stopped. */
  notBegun: [] as MissingShard[],
  incomplete: [] as IncompleteShard[],
  late: [] as { shard: number; lateMs: number }[],
  endMs: startAtEpochMs,
  /** Sum over all shards. */
  maxConnections: 0,
  /** Maximum of any shard. */
  maxConnectionsOfOne: 0,
  /** The shards with a result. */
  parts: [] as number[],
  inputsLeftOut: [] as { shard: number; reason: string }[],
});

function addMissing(all: Collected, missing: MissingShard, claimed: boolean, failure: NamedError | undefined): void {
  if (all.stop === undefined || failure || claimed) {
    all.lost.push({ ...missing, claimed, ...(failure ? { failure } : {}) });
    return;
  }
  all.notBegun.push(missing);
  all.unsent += missing.requests;
  all.wasCancelled = true;
}

/** @param requests of the plan */
function addResult(all: Collected, result: ShardResult, requests: number): void {
  const { shard, sent, unsent, lateMs, stopped, replies, inputsLeftOut: reason } = result;
  const unread = unreadOf(result.skipped);
  all.parts.push(shard);
  all.stats.merge(result.stats);
  all.report.merge(result.report);
  if (replies) all.replies.merge(replies);
  if (reason !== undefined) all.inputsLeftOut.push({ shard, reason });
  all.sent += sent;
  all.unsent += unsent;
  all.endMs = Math.max(all.endMs, result.endedAtMs);
  all.maxConnections += result.maxConnections;
  all.maxConnectionsOfOne = Math.max(all.maxConnectionsOfOne, result.maxConnections);
  for (const [reason, count] of Object.entries(result.skipped)) {
    all.skippedReasons.set(reason, (all.skippedReasons.get(reason) ?? 0) + count);
    all.skippedByShards += count;
  }
  all.wasCancelled ||= stopped;
  if (unsent > 0 || unread > 0) all.incomplete.push({ shard, requests, unsent, stopped, unread });
  if (lateMs > LATE_MS) all.late.push({ shard, lateMs });
}

/** Results of half a megabyte that are read concurrently. One by one, a thousand would take a minute. */
const CONCURRENT_READS = 8;

export async function collectShards(storage: Storage, bucket: string, plan: StoredPlan): Promise<Collected> {
  const { run, shards } = plan;
  const files = await listShardFiles(storage, bucket, run);
  const collected = nothingCollected(plan, await stopMark(storage, bucket, run));
  const has = (shard: number, name: string): boolean => files.get(shard)?.has(name) === true;
  const resultOf = async (shard: number): Promise<ShardResult | NamedError | undefined> => {
    const prefix = replayKeys.shardPrefix(run, shard);
    const name = [SHARD_FILES.result, SHARD_FILES.failure].find((one) => has(shard, one));
    // A damaged result must not hide the results of the other shards.
    return name && storage.getJson<ShardResult | NamedError>(bucket, `${prefix}${name}`).catch(toNamedError);
  };
  const withResult = async (planned: ShardPlan) => ({ ...planned, result: await resultOf(planned.shard) });
  for await (const { shard, requests, result } of inOrder(CONCURRENT_READS, shards, withResult)) {
    if (result && 'stats' in result) addResult(collected, result, requests);
    else addMissing(collected, { shard, requests }, has(shard, SHARD_FILES.claim), result);
  }
  return collected;
}
