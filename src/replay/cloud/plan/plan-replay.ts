/** PlanReplay: decides which shard sends which request at which time. */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Storage } from '../../../core/aws/storage.ts';
import { putFile, TextUpload } from '../../../core/aws/uploads.ts';
import { CONTRACT } from '../../../core/contract/contract.ts';
import type { ReplayPlanRequest, ReplayPlanResult, ShardManifestLine } from '../../../core/contract/replay.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError, saidBy } from '../../../core/errors/errors.ts';
import type { ReplayEnvironment } from '../../../core/settings/environment.ts';
import { captureScope } from '../../../judge/capture-scope.ts';
import { maxConcurrencyOf, overridesOf, scheduleOf, timingOf } from '../../derived-options.ts';
import { type DryRun, dryRun } from '../../dry-run.ts';
import { capturesOf } from '../../finished.ts';
import { MARK_MS, type Registration, registerReplay } from '../../marks/register.ts';
import { LineWriter } from '../../results/line-writer.ts';
import { type ScheduledEntry, schedule } from '../../schedule/timing.ts';
import type { LineReader, SkippedLine } from '../../source/types.ts';
import { SCHEDULE_RESERVE_MS, SHARD_LEAD_MS, shardBounds, startLeadMs, WARMUP_LEAD_MS } from '../limits.ts';
import { stopMark } from '../stop/order.ts';
import { cloudTarget } from '../target.ts';
import { objectReader } from '../work-bucket/object-lines.ts';
import { type PlannedMlflow, plannedSkippedKey, type ShardPlan, type StoredPlan } from '../work-bucket/stored-plan.ts';
import { type IndexedCaptures, indexObjects, replayTooLarge } from './index-objects.ts';
import { parseReplayInput, type ReplayJob } from './input.ts';
import { type EvaluationPorts, findMlflowPlace, planJudge } from './plan-evaluation.ts';
import { type Concurrency, WindowCutter } from './sharding.ts';
import { writeSchedule } from './write-schedule.ts';

interface PlanDependencies {
  storage: Storage;
  environment: ReplayEnvironment;
  evaluation: EvaluationPorts;
  remainingMs(): number;
  /** Epoch ms; for tests. */
  now?(): number;
}

/** Reserved for the manifest, the plan and the MLflow run, with their retries. */
const FINISH_RESERVE_MS = 30_000;
/** Reserved for the result of a dry run. */
const DRY_RUN_RESERVE_MS = 20_000;

/**
 * Plans a replay: writes the schedules of all shards, the manifest for the Map, and `plan.json`.
 *
 * @throws PermanentError `InvalidReplayInput`, `EndpointNotAllowed`, `InferenceComponentNotAllowed`, `UrlNotAllowed`,
 * `SecretNotAllowed`, `NoCaptureFiles`, `OutsideCaptureScope`, `ReplayTooLarge`, `TooManyShards`, `CappedReplayTooLong`,
 * `TooManyRequests`, `RunNameTaken`, `JudgePriceUnknown`, `JudgeModelGone`, `ReplayStopped`, and errors of MLflow's client
 */
export async function planReplay(
  { input, run }: ReplayPlanRequest,
  { storage, environment, evaluation, remainingMs, now = Date.now }: PlanDependencies,
): Promise<ReplayPlanResult> {
  const job = parseReplayInput(input, environment);
  const bounds = shardBounds(job.options, job.shard);
  // Rejects an invalid target before hours of captures are read. Only the shards may read the secret.
  await cloudTarget('url' in job.target ? { url: job.target.url } : job.target, environment);
  // The same for a judge or an MLflow server that is not available.
  const judge = job.dryRun ? null : await planJudge(job, evaluation);
  const bucket = environment.WORK_BUCKET;
  const own = { storage, workBucket: bucket, run: run.name };
  const place = job.dryRun ? undefined : await findMlflowPlace(job, evaluation, own);
  const skipped = new SkippedLines();
  const scope = captureScope({ ...evaluation.settings, ...environment });
  const limits = { remainingMs: () => remainingMs() - SCHEDULE_RESERVE_MS, workBucket: bucket };
  let captures: IndexedCaptures | undefined;
  let mlflow: PlannedMlflow | undefined;
  try {
    captures = await indexObjects(storage, scope, job, (line) => skipped.add(line), limits);
    const found = job.dryRun ? await dryRunOf(storage, captures, job, skipped, remainingMs) : undefined;
    const shards = found
      ? []
      : await cutAndWrite(storage, captures, job, bounds, { bucket, run: run.name, remainingMs });
    await skipped.store(storage, bucket, run.name);
    if (shards.length > 0) mlflow = await place?.openRun(run, now() + startLeadMs(shards, job.options.warmup));
    const plan: StoredPlan = {
      ...planOf(job, captures, shards, skipped.reasons, run.name, now(), found),
      judge,
      mlflow: mlflow ?? null,
    };
    if ('endpoint' in plan.target) plan.marks = await registerAll(storage, bucket, plan);
    const manifest = { bucket, key: replayKeys.manifest(run.name) };
    await writeManifest(storage, manifest, plan);
    await storage.putJson(bucket, replayKeys.plan(run.name), plan);
    // StopReplay reads the plan after writing its order, so one of the two sees the other and ends the MLflow run.
    if (await stopMark(storage, bucket, run.name)) {
      throw new PermanentError('ReplayStopped', 'The replay was stopped during planning; nothing was sent');
    }
    return { outcome: plan.outcome, manifest, shards: shards.length };
  } catch (error) {
    // The failure of planning matters more than one of MLflow. A retry reuses the run.
    const status = error instanceof Error && error.name === 'ReplayStopped' ? 'KILLED' : 'FAILED';
    if (mlflow) await place?.giveUp(mlflow, status, saidBy(error), now()).catch(() => {});
    throw error;
  } finally {
    await skipped.dispose();
  }
}

function concurrencyOf({ options }: ReplayJob): Concurrency | undefined {
  const requests = maxConcurrencyOf(options);
  return Number.isFinite(requests) ? { requests, kept: timingOf(options).kind === 'concurrency' } : undefined;
}

/** Passes through the schedule twice, because the stripes of a window depend on all of its requests. */
async function cutAndWrite(
  storage: Storage,
  { files, index, conversations }: IndexedCaptures,
  job: ReplayJob,
  bounds: ReturnType<typeof shardBounds>,
  { bucket, run, remainingMs }: { bucket: string; run: string; remainingMs(): number },
): Promise<ShardPlan[]> {
  const concurrency = concurrencyOf(job);
  const timing = scheduleOf(job.options);
  // An error with advice is better than a timeout with two retries. Nothing has been sent yet.
  const inTime = async function* (): AsyncGenerator<ScheduledEntry[]> {
    let requests = 0;
    for await (const batch of schedule(index, timing)) {
      if (remainingMs() < FINISH_RESERVE_MS) {
        throw replayTooLarge(
          `${requests} requests scheduled in the time left after reading ${index.total} records`,
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
  const reader = objectReader(storage, files);
  let records = 0;
  const timed: LineReader = {
    expect: (entries) => {
      if (remainingMs() <= DRY_RUN_RESERVE_MS)
        throw replayTooLarge(`the function had time for ${records} requests`, 'fewer');
      records += entries.length;
      reader.expect(entries);
    },
    read: (entry) => reader.read(entry),
    close: () => reader.close(),
  };
  return dryRun(files, index, scheduleOf(options), overridesOf(options), (line) => skipped.add(line), timed);
}

/** Registers the replay for each of its days before any shard sends: a shard ends within `MARK_MS` and a little of its own mark. */
async function registerAll(
  storage: Storage,
  bucket: string,
  { run, shards, startAtEpochMs }: StoredPlan,
): Promise<Registration[]> {
  const lastMs = Math.max(...shards.map(({ firstDueMs }) => firstDueMs ?? 0));
  const marks: Registration[] = [];
  for (let afterMs = 0; afterMs <= lastMs; afterMs += MARK_MS) {
    marks.push(await registerReplay(storage, bucket, { run, atMs: startAtEpochMs + afterMs }));
  }
  return marks;
}

function planOf(
  job: ReplayJob,
  { files, index }: IndexedCaptures,
  shards: ShardPlan[],
  skipped: Record<string, number>,
  run: string,
  plannedAtMs: number,
  found: DryRun | undefined,
): Omit<StoredPlan, 'judge' | 'mlflow'> {
  const { source, window, target, options, compare } = job;
  return {
    contract: CONTRACT,
    run,
    outcome: job.dryRun ? 'dryRun' : shards.length === 0 ? 'empty' : 'planned',
    target,
    options,
    compare,
    source: { ...source, fromMs: window.fromMs ?? null, toMs: window.toMs ?? null },
    captures: capturesOf(files, index),
    skipped,
    plannedAtMs,
    startAtEpochMs: plannedAtMs + startLeadMs(shards, options.warmup),
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
    // Shard 0 first sends the warm-up.
    const lead = SHARD_LEAD_MS + (shard === 0 && options.warmup > 0 ? WARMUP_LEAD_MS : 0);
    const at = startAtEpochMs + (firstDueMs ?? 0) - lead;
    const waitUntil = `${new Date(at).toISOString().slice(0, 19)}Z`;
    await manifest.writeLine({ run, shard, waitUntil } satisfies ShardManifestLine);
  }
  await manifest.close();
}

/** Lines that planning skips: counted by reason, and collected with their places in a temporary file. */
class SkippedLines {
  #directory: string | undefined;
  #file: LineWriter | undefined;
  readonly reasons: Record<string, number> = {};

  add(line: SkippedLine): void {
    this.reasons[line.reason] = (this.reasons[line.reason] ?? 0) + 1;
    this.#directory ??= mkdtempSync(join(tmpdir(), 'replay-skipped-'));
    this.#file ??= new LineWriter(join(this.#directory, 'skipped.jsonl'));
    this.#file.write(JSON.stringify(line));
  }

  /** Uploads the lines to the work bucket, if there are any. */
  async store(storage: Storage, bucket: string, run: string): Promise<void> {
    if (!this.#file) return;
    await this.#file.close();
    await putFile(storage, bucket, plannedSkippedKey(run), this.#file.path, 'application/jsonlines');
  }

  async dispose(): Promise<void> {
    if (this.#directory) await rm(this.#directory, { recursive: true, force: true });
  }
}
