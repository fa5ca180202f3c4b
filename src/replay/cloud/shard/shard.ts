/** ReplayShard: one shard of a replay, from its schedule in the work bucket to its files there. */

import { type ReplayShardRequest, replayKeys } from '../../../contract/replay.ts';
import type { ReplayEnvironment } from '../../../settings/replay-environment.ts';
import { PermanentError, toNamedError } from '../../../shared/errors.ts';
import { Random } from '../../../shared/random.ts';
import type { Storage } from '../../../shared/storage.ts';
import { traceIdOf } from '../../../trace/ids.ts';
import type { ScheduledEntry } from '../../schedule/timing.ts';
import { type ReplayOutcome, runReplay, type SchedulePart } from '../../send-schedule.ts';
import { sendingOf } from '../../to-directory.ts';
import { SHARD_FILES, warmupKey } from '../keys.ts';
import { MAX_CONNECTIONS, WRITE_RESERVE_MS } from '../limits.ts';
import { RangeReader } from '../range-reader.ts';
import { readSchedule, type ShardSchedule } from '../schedule-file.ts';
import { StopWatch } from '../stop/order.ts';
import type { ReplayPlan, ShardPlan } from '../stored-plan.ts';
import { cloudTarget } from '../target.ts';
import { claimShard } from './claim.ts';
import { ShardResults } from './shard-results.ts';

interface ShardDependencies {
  storage: Storage;
  environment: ReplayEnvironment;
  remainingMs(): number;
  /** Of the disk, for tests; default: what there is. */
  freeBytes?: number;
}

/** What the Map gets to see of a shard. */
export interface ShardCounts {
  shard: number;
  sent: number;
  failed: number;
  unsent: number;
  skipped: number;
  lateMs: number;
}

/**
 * @throws PermanentError `ReplayNotPlanned`, `ShardAlreadyClaimed`, `TargetUnreachable`, those of the target and of the
 * storage. Why a shard failed is also left beside its files, for the summary.
 */
export async function replayShard(request: ReplayShardRequest, deps: ShardDependencies): Promise<ShardCounts> {
  const { run, shard } = request;
  const bucket = deps.environment.WORK_BUCKET;
  try {
    return await claimAndRun(request, deps);
  } catch (error) {
    const named = toNamedError(error);
    if (named.name !== 'ShardAlreadyClaimed') {
      const key = `${replayKeys.shardPrefix(run, shard)}${SHARD_FILES.failure}`;
      // The failure itself is what matters; the summary knows without this note too that the shard is lost.
      await deps.storage.putJson(bucket, key, named).catch(() => {});
    }
    throw error;
  }
}

async function claimAndRun({ run, shard }: ReplayShardRequest, deps: ShardDependencies): Promise<ShardCounts> {
  const { storage, environment } = deps;
  const bucket = environment.WORK_BUCKET;
  const plan = await storage.getJson<ReplayPlan>(bucket, replayKeys.plan(run));
  const own = plan?.shards[shard];
  if (!plan || !own) {
    throw new PermanentError('ReplayNotPlanned', 'The replay has no plan for that shard', {
      got: `shard ${shard} of ${run}`,
      where: `s3://${bucket}/${replayKeys.plan(run)}`,
    });
  }
  const schedule = await scheduleAt(storage, bucket, replayKeys.schedule(run, shard));
  const warmup = shard === 0 && plan.options.warmup > 0 ? await scheduleAt(storage, bucket, warmupKey(run)) : undefined;
  const stop = new StopWatch(storage, bucket, run);
  if (await stop.look()) return notSent(own);
  await claimShard(storage, bucket, { run, shard, claimedAtMs: Date.now() });
  const captured = schedule.entries.map(({ entry }) => entry.length);
  const results = await ShardResults.create(plan, own, captured, deps.freeBytes);
  try {
    const beganAtMs = Date.now();
    // Again, since whoever stops a replay waits for the shards that have a claim by then, and for no other.
    const outcome = (await stop.look())
      ? { ...NOTHING_SENT, unsent: schedule.entries.length }
      : await send(plan, own, schedule, warmup, results, stop, deps);
    const { lateMs, sent, unsent, maxConnections, warmFailures } = outcome;
    const stopped = outcome.stopped && stop.signal.aborted;
    const figures = {
      shard,
      beganAtMs,
      endedAtMs: Date.now(),
      lateMs,
      sent,
      unsent,
      stopped,
      maxConnections,
      warmFailures,
    };
    const result = await results.store(storage, bucket, replayKeys.shardPrefix(run, shard), figures);
    const skipped = Object.values(result.skipped).reduce((sum, count) => sum + count, 0);
    return { shard, sent, failed: result.stats.failed, unsent, skipped, lateMs };
  } finally {
    await results.dispose();
  }
}

async function scheduleAt(storage: Storage, bucket: string, key: string): Promise<ShardSchedule> {
  const where = `s3://${bucket}/${key}`;
  const stored = await storage.getText(bucket, key);
  if (stored) return readSchedule(stored.text, where);
  throw new PermanentError('ReplayNotPlanned', 'The shard has no schedule', { where });
}

type Sent = Pick<ReplayOutcome, 'lateMs' | 'sent' | 'unsent' | 'stopped' | 'maxConnections' | 'warmFailures'>;

const NOTHING_SENT: Sent = { lateMs: 0, sent: 0, unsent: 0, stopped: true, maxConnections: 0, warmFailures: 0 };

/** A shard that is called after the replay was stopped has not begun: it leaves neither claim nor result. */
const notSent = ({ shard, requests }: ShardPlan): ShardCounts => ({
  shard,
  sent: 0,
  failed: 0,
  unsent: requests,
  skipped: 0,
  lateMs: 0,
});

/** Sends until all is sent, until the replay is stopped, or until there is just time left to write what was measured. */
async function send(
  plan: ReplayPlan,
  shard: ShardPlan,
  { files, entries }: ShardSchedule,
  warmup: ShardSchedule | undefined,
  results: ShardResults,
  stop: StopWatch,
  { storage, environment, remainingMs }: ShardDependencies,
): Promise<ReplayOutcome> {
  const { options } = plan;
  const sending = sendingOf(options);
  const capturesId = plan.mlflow?.capturesExperimentId;
  // Files of the warm-up stand behind the shard's own.
  const warm = (warmup?.entries ?? []).map((one) => ({
    ...one,
    entry: { ...one.entry, file: one.entry.file + files.length },
  }));
  const allFiles = [...files, ...(warmup?.files ?? [])];
  const reader = new RangeReader(storage, allFiles);
  reader.expect([...warm, ...entries].map(({ entry }) => entry));
  const stopping = new AbortController();
  const deadline = setTimeout(() => stopping.abort(), Math.max(0, remainingMs() - WRITE_RESERVE_MS));
  stop.watch();
  try {
    return await runReplay(
      {
        run: plan.run,
        files: allFiles,
        // The schedule was made when the replay was planned.
        index: { total: entries.length, firstMs: 0, batches: () => [] },
        ...sending,
        schedule: { ...sending.schedule, seed: shardSeed(options.randomSeed, shard.shard) },
        part: partOf(entries, warm, reader, shard),
        startAtEpochMs: plan.startAtEpochMs,
        target: await cloudTarget(plan.target, environment),
        maxConcurrency: Math.min(shard.maxConcurrency ?? MAX_CONNECTIONS, MAX_CONNECTIONS),
        warmup: warm.length,
        keepCaptured: plan.compare,
        ...(capturesId === undefined ? {} : { traceIdOf: (line: Buffer) => traceIdOf(capturesId, line) }),
        keepRaw: plan.raw,
        onSkipped: (line) => results.set.skipped(line),
        onPrepared: (request) => results.prepared(request),
        onStarted: ({ startAt }) => results.set.started(startAt),
        onMeasured: (measured, clock) => results.measured(measured, clock),
      },
      AbortSignal.any([stopping.signal, stop.signal]),
    );
  } finally {
    clearTimeout(deadline);
    stop.close();
    await reader.close();
  }
}

const partOf = (
  entries: ScheduledEntry[],
  warmup: ScheduledEntry[],
  reader: RangeReader,
  { firstDueMs }: ShardPlan,
): SchedulePart => ({
  entries: () => inBatches(entries),
  warmup: () => inBatches(warmup),
  firstDueMs: firstDueMs ?? 0,
  reader,
});

async function* inBatches(entries: ScheduledEntry[]): AsyncGenerator<ScheduledEntry[]> {
  if (entries.length > 0) yield entries;
}

/** Each shard draws numbers of its own: with the seed of the run all would give up the same of their requests. */
export const shardSeed = (seed: number, shard: number): number =>
  shard === 0 ? seed : new Random((seed ^ Math.imul(shard, 0x9e3779b1)) >>> 0).below(2 ** 32);
