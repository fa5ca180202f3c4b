/** PlanReplay: what is to be sent when, and by which shard. */

import type { ReplayPlanRequest, ReplayPlanResult, ShardManifestLine } from '../../../contract/replay.ts';
import { replayKeys } from '../../../contract/work-keys.ts';
import type { ReplayEnvironment } from '../../../settings/environment.ts';
import { PermanentError, toNamedError } from '../../../shared/errors.ts';
import type { Storage } from '../../../shared/storage.ts';
import { TextUpload } from '../../../shared/uploads.ts';
import { maxConcurrencyOf, overridesOf, scheduleOf, sliceMsOf, timingOf } from '../../derived-options.ts';
import { type DryRun, dryRun } from '../../dry-run.ts';
import { type ScheduledEntry, schedule } from '../../schedule/timing.ts';
import type { IndexEntry } from '../../source/types.ts';
import { SCHEDULE_RESERVE_MS, SHARD_LEAD_MS, START_LEAD_MS, shardBounds, WARMUP_LEAD_MS } from '../limits.ts';
import { RangeReader } from '../shard/range-reader.ts';
import { stopMark } from '../stop/order.ts';
import { cloudTarget } from '../target.ts';
import type { CaptureObject } from '../work-bucket/schedule-file.ts';
import type { PlannedMlflow, ShardPlan, StoredPlan } from '../work-bucket/stored-plan.ts';
import { type IndexedCaptures, indexObjects, replayTooLarge } from './index-objects.ts';
import { parseReplayInput, type ReplayJob } from './input.ts';
import { type EvaluationPorts, findMlflowPlace, planJudge } from './plan-evaluation.ts';
import { type Concurrency, WindowCutter } from './sharding.ts';
import { SkippedLines } from './skipped-lines.ts';
import { writeSchedule } from './write-schedule.ts';

interface PlanDependencies {
  storage: Storage;
  environment: ReplayEnvironment;
  evaluation: EvaluationPorts;
  remainingMs(): number;
  /** Epoch ms; for tests. */
  now?(): number;
}

/** Kept of the function's time for the manifest, the plan and the run in MLflow, with their retries. */
const FINISH_RESERVE_MS = 30_000;
/** Kept of the function's time for what a dry run has found. */
const DRY_RUN_RESERVE_MS = 20_000;

/**
 * @throws PermanentError `InvalidReplayInput`, `EndpointNotAllowed`, `InferenceComponentNotAllowed`, `SecretNotAllowed`,
 * `NoCaptureFiles`, `OutsideCaptureScope`, `ReplayTooLarge`, `TooManyShards`, `CappedReplayTooLong`, `TooManyRequests`,
 * `JudgePriceUnknown`, `JudgeModelGone`, `ReplayStopped`, and those of MLflow's client
 */
export async function planReplay(
  { input, run }: ReplayPlanRequest,
  { storage, environment, evaluation, remainingMs, now = Date.now }: PlanDependencies,
): Promise<ReplayPlanResult> {
  const job = parseReplayInput(input, environment);
  const bounds = shardBounds(job.options, job.shard);
  // A target that cannot be is known before hours of captures are read; its secret is for the shards alone.
  await cloudTarget('url' in job.target ? { url: job.target.url } : job.target, environment);
  // Nor does anybody want to know of a judge or an MLflow that is away after the last request.
  const judge = job.dryRun ? null : await planJudge(job, evaluation);
  const place = job.dryRun ? undefined : await findMlflowPlace(job, evaluation);
  const bucket = environment.WORK_BUCKET;
  const skipped = new SkippedLines();
  const scope = { bucket: environment.DATA_CAPTURE_S3_BUCKET, prefix: environment.DATA_CAPTURE_S3_PREFIX };
  const limits = { remainingMs: () => remainingMs() - SCHEDULE_RESERVE_MS };
  let captures: IndexedCaptures | undefined;
  let mlflow: PlannedMlflow | undefined;
  try {
    captures = await indexObjects(storage, scope, job, (line) => skipped.add(line), limits);
    const { shards, found } = job.dryRun
      ? { shards: [], found: await dryRunOf(storage, captures, job, skipped, remainingMs) }
      : {
          shards: await cutAndWrite(storage, captures, job, bounds, { bucket, run: run.name, remainingMs }),
          found: undefined,
        };
    await skipped.store(storage, bucket, run.name);
    if (shards.length > 0) mlflow = await place?.openRun(run, now() + leadOf(job.options));
    const plan: StoredPlan = {
      ...planOf(job, captures, shards, skipped.reasons, run.name, now(), found),
      judge,
      mlflow: mlflow ?? null,
    };
    const manifest = { bucket, key: replayKeys.manifest(run.name) };
    await writeManifest(storage, manifest, plan);
    await storage.putJson(bucket, replayKeys.plan(run.name), plan);
    // Whoever stops a replay looks for its plan after that order is there: one of the two sees the other, and ends the run.
    if (await stopMark(storage, bucket, run.name)) {
      throw new PermanentError('ReplayStopped', 'The replay was stopped while it was planned; nothing was sent');
    }
    const evaluate = plan.outcome === 'planned' && (plan.judge !== null || plan.mlflow !== null);
    return { outcome: plan.outcome, manifest, shards: shards.length, evaluate };
  } catch (error) {
    // What stopped the planning is what matters. One that is tried again takes the run up again.
    const { name, message } = toNamedError(error);
    const status = name === 'ReplayStopped' ? 'KILLED' : 'FAILED';
    if (mlflow) await place?.giveUp(mlflow, status, `${name}: ${message}`, now()).catch(() => {});
    throw error;
  } finally {
    await skipped.dispose();
  }
}

function concurrencyOf({ options }: ReplayJob): Concurrency | undefined {
  const requests = maxConcurrencyOf(options);
  return Number.isFinite(requests) ? { requests, kept: timingOf(options).kind === 'concurrency' } : undefined;
}

/** Goes through the schedule twice: a window's stripes are known only when the whole window has been seen. */
async function cutAndWrite(
  storage: Storage,
  { files, index, conversations }: IndexedCaptures,
  job: ReplayJob,
  bounds: ReturnType<typeof shardBounds>,
  { bucket, run, remainingMs }: { bucket: string; run: string; remainingMs(): number },
): Promise<ShardPlan[]> {
  const concurrency = concurrencyOf(job);
  const timing = scheduleOf(job.options);
  // Nothing has been sent: better an error that says what to do than a function that is ended, and tried again twice.
  const inTime = async function* (): AsyncGenerator<ScheduledEntry[]> {
    let requests = 0;
    for await (const batch of schedule(index, timing)) {
      if (remainingMs() < FINISH_RESERVE_MS) {
        throw replayTooLarge(
          `${requests} requests scheduled in the time that reading ${index.total} records left`,
          'fewer',
        );
      }
      requests += batch.length;
      yield batch;
    }
  };
  const cutter = new WindowCutter(bounds, concurrency);
  for await (const batch of inTime()) {
    for (const { dueMs, entry } of batch) cutter.add(dueMs, entry.length);
  }
  const windows = cutter.windows();
  if (windows.length === 0) return [];
  const source = { batches: inTime(), files, conversations, warmup: job.options.warmup };
  return writeSchedule(source, windows, bounds, concurrency, { storage, bucket, run });
}

async function dryRunOf(
  storage: Storage,
  { files, index }: IndexedCaptures,
  { options }: ReplayJob,
  skipped: SkippedLines,
  remainingMs: () => number,
): Promise<DryRun> {
  const reader = new TimedReader(storage, files, () => remainingMs() - DRY_RUN_RESERVE_MS);
  return dryRun(files, index, scheduleOf(options), overridesOf(options), (line) => skipped.add(line), reader);
}

/** Ends in words what Lambda would end without them. */
class TimedReader extends RangeReader {
  readonly #remainingMs: () => number;
  #records = 0;

  constructor(storage: Storage, files: readonly CaptureObject[], remainingMs: () => number) {
    super(storage, files);
    this.#remainingMs = remainingMs;
  }

  override expect(entries: readonly IndexEntry[]): void {
    if (this.#remainingMs() <= 0)
      throw replayTooLarge(`${this.#records} requests counted in the time there was`, 'fewer');
    this.#records += entries.length;
    super.expect(entries);
  }
}

/** From the end of planning to the start of the clock. */
const leadOf = ({ warmup }: ReplayJob['options']): number => START_LEAD_MS + (warmup > 0 ? WARMUP_LEAD_MS : 0);

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null);

function planOf(
  job: ReplayJob,
  { files, index }: IndexedCaptures,
  shards: ShardPlan[],
  skipped: Record<string, number>,
  run: string,
  plannedAtMs: number,
  found: DryRun | undefined,
): Omit<StoredPlan, 'judge' | 'mlflow'> {
  const { source, window, target, options, compare, raw } = job;
  return {
    run,
    outcome: job.dryRun ? 'dryRun' : shards.length === 0 ? 'empty' : 'planned',
    target,
    options,
    compare,
    raw,
    source: { ...source, fromMs: window.fromMs ?? null, toMs: window.toMs ?? null },
    captures: {
      files: files.length,
      records: index.total,
      firstMs: finite(index.firstMs),
      lastMs: finite(index.lastMs),
    },
    skipped,
    plannedAtMs,
    startAtEpochMs: plannedAtMs + leadOf(options),
    sliceMs: sliceMsOf(options, index.total > 0 ? index.lastMs - index.firstMs : 0),
    requests: shards.reduce((sum, { requests }) => sum + requests, 0),
    shards,
    ...(found ? { dryRun: found } : {}),
  };
}

async function writeManifest(
  storage: Storage,
  { bucket, key }: { bucket: string; key: string },
  { run, shards, startAtEpochMs, options }: StoredPlan,
): Promise<void> {
  const manifest = new TextUpload(storage, bucket, key);
  for (const { shard, firstDueMs } of shards) {
    // Shard 0 has the warm-up's requests to send before.
    const lead = SHARD_LEAD_MS + (shard === 0 && options.warmup > 0 ? WARMUP_LEAD_MS : 0);
    const at = startAtEpochMs + (firstDueMs ?? 0) - lead;
    const waitUntil = `${new Date(at).toISOString().slice(0, 19)}Z`;
    await manifest.writeLine({ run, shard, waitUntil } satisfies ShardManifestLine);
  }
  await manifest.close();
}
