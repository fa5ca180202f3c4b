/** ReplayShard: sends one shard of a replay at most once, and writes its measurements to the work bucket. */

import type { connectRedaction } from '../../../captures/redact/redaction.ts';
import { traceIdOf } from '../../../captures/trace/ids.ts';
import type { FunctionContext } from '../../../core/aws/function-context.ts';
import type { Storage } from '../../../core/aws/storage.ts';
import type { ReplayShardRequest } from '../../../core/contract/replay.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError, toNamedError } from '../../../core/errors/errors.ts';
import type { ReplayEnvironment } from '../../../core/settings/environment.ts';
import { Random } from '../../../core/values/random.ts';
import { isScheduled } from '../../derived-options.ts';
import type { SendOutcome } from '../../send/job.ts';
import { sendSchedule } from '../../send/send-schedule.ts';
import { MAX_CONNECTIONS, WRITE_RESERVE_MS } from '../limits.ts';
import { cloudTarget } from '../target.ts';
import { objectReader, readSchedule, type ShardSchedule } from '../work-bucket/schedule-file.ts';
import { type StopWatch, stopWatch } from '../work-bucket/stop-order.ts';
import { readShardPlan, SHARD_FILES, type ShardPlan, type StoredPlan } from '../work-bucket/stored-plan.ts';
import { type ShardResults, shardResults } from './shard-results.ts';

interface ShardDependencies extends FunctionContext<ReplayEnvironment> {
  /** Returns the settings, and the redaction that the replay applies. */
  redacted: ReturnType<typeof connectRedaction<ReplayEnvironment>>;
  /** Directory of the shard's files. Default: a new one; set by tests. */
  directory?: string;
}

/**
 * Sends the shard at most once. The reason of a failure is also saved next to its files, for the summary.
 *
 * @throws PermanentError `ReplayNotPlanned`, `ShardAlreadyClaimed`, `TargetUnreachable`, `ResultsNotWritten`, and errors of the
 * target and of the storage
 *
 * @example
 *     await replayShard({ run: 'nightly', shard: 0 }, { environment, storage, redacted });
 */
export async function replayShard(request: ReplayShardRequest, deps: ShardDependencies) {
  const { run, shard } = request;
  const bucket = deps.environment.WORK_BUCKET;
  try {
    return await claimAndRun(request, deps);
  } catch (error) {
    const named = toNamedError(error);
    if (named.name !== 'ShardAlreadyClaimed') {
      const key = `${replayKeys.shardPrefix(run, shard)}${SHARD_FILES.failure}`;
      // The failure itself matters more than this note: the summary counts the shard as lost either way.
      await deps.storage.putJson(bucket, key, named).catch(() => {});
    }
    throw error;
  }
}

/** A shard's counts, returned to the Map. */
export type ShardCounts = Awaited<ReturnType<typeof claimAndRun>>;

async function claimAndRun(request: ReplayShardRequest, deps: ShardDependencies) {
  const { storage, environment } = deps;
  const { run, shard } = request;
  const bucket = environment.WORK_BUCKET;
  const { plan, own } = await readShardPlan(storage, bucket, request);
  const schedule = await readSchedule(storage, bucket, replayKeys.schedule(run, shard));
  const stop = stopWatch(storage, bucket, run);
  // A shard that is called after the stop order leaves neither a claim nor a result.
  if (await stop.check()) return { shard, sent: 0, failed: 0, unsent: own.requests, skipped: 0, lateMs: 0 };
  await claimShard(storage, bucket, request);
  const results = shardResults(plan, own, deps.directory);
  try {
    // Check for a stop order again: the summarizer waits only for shards whose claim it sees, so a shard that claims later
    // must see the order.
    const outcome = (await stop.check())
      ? { lateMs: 0, sent: 0, unsent: own.requests, stopped: true, maxConnections: 0 }
      : await send(plan, own, schedule, results, stop, deps);
    const { lateMs, sent, unsent, maxConnections } = outcome;
    const stopped = outcome.stopped && stop.signal.aborted;
    const endedAtMs = Date.now();
    const figures = { shard, endedAtMs, lateMs, sent, unsent, stopped, maxConnections };
    const result = await results.store(storage, bucket, figures);
    const skipped = Object.values(result.skipped).reduce((sum, count) => sum + count, 0);
    return { shard, sent, failed: result.stats.failed, unsent, skipped, lateMs };
  } finally {
    await results.dispose();
  }
}

/** Sends all requests, or as many as it can until the replay is stopped or the results have to be written. */
async function send(
  plan: StoredPlan,
  shard: ShardPlan,
  { files, entries }: ShardSchedule,
  results: ShardResults,
  stop: StopWatch,
  { storage, environment, redacted, remainingMs }: ShardDependencies,
): Promise<SendOutcome> {
  const { options } = plan;
  const capturesId = plan.mlflow?.capturesExperimentId;
  // The warm-up comes first.
  const warming = entries.slice(0, -shard.requests);
  const stopping = new AbortController();
  const deadline = setTimeout(() => stopping.abort(), Math.max(0, remainingMs() - WRITE_RESERVE_MS));
  stop.watch();
  try {
    const outcome = await sendSchedule(
      {
        run: plan.run,
        files,
        reader: objectReader(storage, files),
        options: { ...options, randomSeed: shardSeed(options.randomSeed, shard.shard) },
        schedule: {
          entries: () => [entries.slice(warming.length)],
          ...(warming.length > 0 ? { warmup: () => [warming] } : {}),
          size: () => entries.length - warming.length,
          firstDueMs: shard.firstDueMs ?? 0,
          closedLoop: !isScheduled(options),
        },
        startAtEpochMs: plan.startAtEpochMs,
        target: await cloudTarget(plan.target, environment, markOf(plan)),
        maxConcurrency: Math.min(shard.maxConcurrency ?? MAX_CONNECTIONS, MAX_CONNECTIONS),
        keepCaptured: plan.compare,
        csvHeader: environment.CSV_HEADER,
        featureNames: environment.FEATURE_NAMES,
        redaction: (await redacted(plan.redactKey)).redaction,
        ...(capturesId === undefined ? {} : { traceIdOf: (line: Buffer) => traceIdOf(capturesId, line) }),
        onSkipped: (line) => results.set.skipped.add(line),
        onStarted: ({ startAt }) => {
          results.set.startAt = startAt;
        },
        onMeasured: (measured, clock) => results.set.measured(measured, clock),
      },
      // Requests whose results cannot be kept are not sent: they would load the target without any use.
      AbortSignal.any([stopping.signal, stop.signal, results.set.unwritable.signal]),
    );
    if (outcome.failure !== undefined) throw outcome.failure;
    return outcome;
  } finally {
    clearTimeout(deadline);
    stop.close();
  }
}

/** Returns the registration of this time. */
const markOf = ({ marks = [] }: StoredPlan): string | undefined =>
  (marks.findLast(({ atMs }) => atMs <= Date.now()) ?? marks[0])?.id;

/** Returns a different seed for each shard. With the run's own seed, all shards would cancel the same requests. */
export const shardSeed = (seed: number, shard: number): number =>
  shard === 0 ? seed : new Random((seed ^ Math.imul(shard, 0x9e3779b1)) >>> 0).below(2 ** 32);

/**
 * Claims the shard before its first request. A second attempt is indistinguishable from a retry after a lost answer to the
 * conditional write. Both fail: a shard that is reported as lost is better than requests that are sent twice.
 *
 * @throws PermanentError `ShardAlreadyClaimed`
 */
export async function claimShard(storage: Storage, bucket: string, { run, shard }: ReplayShardRequest): Promise<void> {
  const key = `${replayKeys.shardPrefix(run, shard)}${SHARD_FILES.claim}`;
  if (await storage.putJsonIf(bucket, key, { run, shard, claimedAtMs: Date.now() })) return;
  throw new PermanentError('ShardAlreadyClaimed', 'The shard was started before; its requests are not sent twice', {
    got: `shard ${shard} of ${run}`,
    where: `s3://${bucket}/${key}`,
  });
}
