/** Takes in what the shards measured, and says which of them are missing something. */

import { replayKeys } from '../../../contract/work-keys.ts';
import { toNamedError } from '../../../shared/errors.ts';
import type { ObjectFacts, Storage } from '../../../shared/storage.ts';
import { ReportCollector } from '../../measure/report-collector.ts';
import { RunStats } from '../../measure/run-stats.ts';
import type { MeasuredRun } from '../../results/result-set.ts';
import { TimeSlices } from '../../results/time-slices.ts';
import { parseShardResult, type ShardResult } from '../shard/shard-result.ts';
import { type StopMark, stopMark } from '../stop/order.ts';
import { SHARD_FILES } from '../work-bucket/keys.ts';
import type { StoredPlan } from '../work-bucket/stored-plan.ts';

/** A shard of which nothing is known. */
interface LostShard {
  shard: number;
  requests: number;
  /** It may have sent some or all of its requests. */
  claimed: boolean;
  failure?: NamedFailure;
}

interface NamedFailure {
  name: string;
  message: string;
}

/** A shard that did not begin because the replay was stopped. */
interface UnbegunShard {
  shard: number;
  requests: number;
}

/** A shard that measured only a part of its requests. */
interface IncompleteShard {
  shard: number;
  requests: number;
  unsent: number;
  /** Whether it is so because the replay was stopped; else its time was up. */
  stopped: boolean;
  /** Requests whose captures could not be read any more. */
  unread: number;
}

interface NotKept {
  shard: number;
  replies: number;
  bytes: number;
}

interface LateShard {
  shard: number;
  lateMs: number;
}

export interface Collected extends MeasuredRun {
  /** Requests of the schedule: `sent`, `unsent`, skipped by the shards, and those of lost shards. */
  sent: number;
  unsent: number;
  skippedByShards: number;
  /** The order to stop, where there is one; and whether it has kept back or cut anything. */
  stop: StopMark | undefined;
  wasCancelled: boolean;
  lost: LostShard[];
  notBegun: UnbegunShard[];
  incomplete: IncompleteShard[];
  late: LateShard[];
  endMs: number;
  maxConnections: number;
  /** Most of any shard. */
  maxConnectionsOfOne: number;
  warmFailures: number;
  /** Shards that could not keep all replies. */
  notKept: NotKept[];
  /** The files of the shards that are there, by name, in the order of the shards. */
  files: Map<string, { shard: number; object: ObjectFacts; firstStartMs: number; sent: number }[]>;
}

/** Results of half a megabyte that are read at a time: one after the other, S3 would keep a thousand of them a minute. */
const RESULTS_AHEAD = 8;

/** A shard that begins later than this is named; less is in the figures of the schedule's lag. */
const LATE_MS = 100;

export async function collectShards(storage: Storage, bucket: string, plan: StoredPlan): Promise<Collected> {
  const { run, shards, sliceMs } = plan;
  const objects = await shardObjects(storage, bucket, run);
  const claimed = await claimedShards(storage, bucket, run);
  const stop = await stopMark(storage, bucket, run);
  const found: Collected = {
    stats: new RunStats(),
    warmup: new RunStats(),
    slices: new TimeSlices(sliceMs),
    report: new ReportCollector(),
    skippedReasons: new Map(Object.entries(plan.skipped)),
    sent: 0,
    unsent: 0,
    skippedByShards: 0,
    stop,
    wasCancelled: false,
    lost: [],
    notBegun: [],
    incomplete: [],
    late: [],
    endMs: plan.startAtEpochMs,
    maxConnections: 0,
    maxConnectionsOfOne: 0,
    warmFailures: 0,
    notKept: [],
    files: new Map(),
  };
  const resultOf = async (shard: number): Promise<ShardResult | NamedFailure | undefined> => {
    if (!objects.get(shard)?.has(SHARD_FILES.result)) return undefined;
    const key = `${replayKeys.shardPrefix(run, shard)}${SHARD_FILES.result}`;
    const stored = await storage.getText(bucket, key);
    try {
      return stored && parseShardResult(stored.text, `s3://${bucket}/${key}`);
    } catch (error) {
      // One object that is damaged is no reason to show nothing of all the others.
      return toNamedError(error);
    }
  };
  const ahead: ReturnType<typeof resultOf>[] = [];
  let asked = 0;
  for (const { shard, requests } of shards) {
    for (; asked < shards.length && ahead.length < RESULTS_AHEAD; asked++) {
      const result = resultOf(shards[asked]?.shard ?? 0);
      // What goes wrong is thrown when its turn comes.
      result.catch(() => {});
      ahead.push(result);
    }
    const result = await ahead.shift();
    const files = objects.get(shard);
    if (!result || 'message' in result) {
      const key = `${replayKeys.shardPrefix(run, shard)}${SHARD_FILES.failure}`;
      const stored = files?.has(SHARD_FILES.failure) ? storage.getJson<NamedFailure>(bucket, key) : undefined;
      const failure = result ?? (await stored);
      if (stop && !failure && !claimed.has(shard)) {
        found.notBegun.push({ shard, requests });
        found.unsent += requests;
        found.wasCancelled = true;
      } else {
        found.lost.push({ shard, requests, claimed: claimed.has(shard), ...(failure ? { failure } : {}) });
      }
      continue;
    }
    take(found, result, requests);
    for (const [name, object] of files ?? []) {
      const list = found.files.get(name) ?? [];
      list.push({ shard, object, firstStartMs: result.stats.firstStartMs ?? 0, sent: result.sent });
      found.files.set(name, list);
    }
  }
  return found;
}

function take(found: Collected, result: ShardResult, requests: number): void {
  const { shard, unsent, unread, lateMs, stopped } = result;
  found.stats.merge(RunStats.fromJSON(result.stats));
  found.warmup.merge(RunStats.fromJSON(result.warmup));
  found.slices.merge(result.slices);
  found.report.merge(result.report);
  found.sent += result.sent;
  found.unsent += unsent;
  found.endMs = Math.max(found.endMs, result.endedAtMs);
  found.maxConnections += result.maxConnections;
  found.maxConnectionsOfOne = Math.max(found.maxConnectionsOfOne, result.maxConnections);
  found.warmFailures += result.warmFailures;
  const reasons = found.skippedReasons as Map<string, number>;
  for (const [reason, count] of Object.entries(result.skipped)) {
    reasons.set(reason, (reasons.get(reason) ?? 0) + count);
    found.skippedByShards += count;
  }
  found.wasCancelled ||= stopped;
  if (unsent > 0 || unread > 0) found.incomplete.push({ shard, requests, unsent, stopped, unread });
  if (result.notKept.replies > 0) found.notKept.push({ shard, ...result.notKept });
  if (lateMs > LATE_MS) found.late.push({ shard, lateMs });
}

/** What is under the shards' prefixes: the objects of each shard by their names. */
async function shardObjects(
  storage: Storage,
  bucket: string,
  run: string,
): Promise<Map<number, Map<string, ObjectFacts>>> {
  const prefix = replayKeys.shardsPrefix(run);
  const shards = new Map<number, Map<string, ObjectFacts>>();
  for await (const object of storage.list(bucket, prefix)) {
    const [shard = '', name = ''] = object.key.slice(prefix.length).split('/');
    const files = shards.get(Number(shard)) ?? new Map<string, ObjectFacts>();
    files.set(name, object);
    shards.set(Number(shard), files);
  }
  return shards;
}

async function claimedShards(storage: Storage, bucket: string, run: string): Promise<Set<number>> {
  const prefix = replayKeys.claimPrefix(run);
  const shards = new Set<number>();
  for await (const { key } of storage.list(bucket, prefix)) shards.add(Number.parseInt(key.slice(prefix.length), 10));
  return shards;
}
