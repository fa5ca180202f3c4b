/** PlanReplay: decides which shard sends which request at which time. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { filesUnder } from '../../../captures/files/capture-objects.ts';
import { type connectRedaction, redactionOf } from '../../../captures/redact/redaction.ts';
import type { FunctionContext } from '../../../core/aws/function-context.ts';
import type { Storage, Work } from '../../../core/aws/storage.ts';
import { putFile } from '../../../core/aws/uploads.ts';
import { CONTRACT } from '../../../core/contract/contract.ts';
import type { ReplayPlanRequest, ReplayPlanResult, ShardManifestLine } from '../../../core/contract/replay.ts';
import { areaOf, replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError, saidBy } from '../../../core/errors/errors.ts';
import type { ReplayEnvironment } from '../../../core/settings/environment.ts';
import { DEFAULT_MAX_LINE_BYTES } from '../../../core/values/line-bound.ts';
import { sum } from '../../../core/values/sum.ts';
import { captureScope } from '../../../judge/capture-scope.ts';
import { isByCapturedTimes } from '../../derived-options.ts';
import { dryRun } from '../../dry-run.ts';
import { capturesOf } from '../../finished.ts';
import { MARK_MS, Marks, type Registration, registerReplay } from '../../marks/believe.ts';
import { type Keep, keepMasked } from '../../request/keep.ts';
import { skippedFile } from '../../results/line-writer.ts';
import { type ScheduledEntry, schedule } from '../../schedule/timing.ts';
import { indexCaptures } from '../../source/index-captures.ts';
import type { OnSkipped } from '../../source/types.ts';
import {
  SCHEDULE_RESERVE_MS,
  SHARD_LEAD_MS,
  type ShardBounds,
  shardBounds,
  startLeadMs,
  WARMUP_LEAD_MS,
} from '../limits.ts';
import { cloudTarget } from '../target.ts';
import { type CaptureObject, objectReader, scannersOf } from '../work-bucket/schedule-file.ts';
import { stopMark } from '../work-bucket/stop-order.ts';
import {
  LINES,
  type PlannedMlflow,
  plannedSkippedKey,
  type ShardPlan,
  type StoredPlan,
} from '../work-bucket/stored-plan.ts';
import { parseReplayInput, type ReplayJob } from './input.ts';
import { type EvaluationPorts, findMlflowPlace, planJudge } from './plan-evaluation.ts';
import { writeShards } from './sharding.ts';

interface PlanDependencies extends FunctionContext<ReplayEnvironment>, Omit<EvaluationPorts, 'environment'> {
  /** Returns the settings, and the redaction that the replay applies. */
  redacted: ReturnType<typeof connectRedaction<ReplayEnvironment>>;
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
 *
 * @example
 *     const { shards } = await planReplay({ input: { target: { endpoint: 'chat-v2' } }, run }, deps);
 */
export async function planReplay({ input, run }: ReplayPlanRequest, deps: PlanDependencies): Promise<ReplayPlanResult> {
  const { storage, environment, redacted, remainingMs, now = Date.now } = deps;
  const job = parseReplayInput(input, environment);
  const bounds = shardBounds(job.options, job.shard);
  // Rejects an invalid target before hours of captures are read. Only the shards may read the secret.
  await cloudTarget('url' in job.target ? { url: job.target.url } : job.target, environment);
  // Fails now if a judge, a key or an MLflow server is not available.
  const judge = job.dryRun ? null : await planJudge(job, deps);
  // A dry run keeps no items that must be joined later, so it needs no key.
  const { redaction } = job.dryRun ? { redaction: redactionOf(environment) } : await redacted();
  const keep = keepMasked({ redaction });
  const bucket = environment.WORK_BUCKET;
  const own = { storage, workBucket: bucket, run: run.name };
  const place = job.dryRun ? undefined : await findMlflowPlace(job, deps, own);
  const directory = await mkdtemp(join(tmpdir(), 'replay-skipped-'));
  const skipped = skippedFile(directory);
  let mlflow: PlannedMlflow | undefined;
  try {
    const captures = await indexObjects(job, skipped.add, deps);
    if (job.dryRun) await writeDryRun(captures, job, skipped, own, remainingMs, keep);
    const shards = job.dryRun ? [] : await writeSchedules(captures, job, bounds, own, remainingMs);
    const listed = await skipped.close();
    if (listed) await putFile(storage, bucket, plannedSkippedKey(run.name), listed, LINES);
    const startAtEpochMs = now() + startLeadMs(shards, job.options.warmup);
    const { source, window, target, options, compare } = job;
    const plan: StoredPlan = {
      contract: CONTRACT,
      run: run.name,
      outcome: job.dryRun ? 'dryRun' : shards.length === 0 ? 'empty' : 'planned',
      target,
      options,
      compare,
      judge,
      mlflow: null,
      source: { ...source, fromMs: window.fromMs ?? null, toMs: window.toMs ?? null },
      captures: capturesOf(captures.files, captures.index),
      skipped: Object.fromEntries(skipped.reasons),
      startAtEpochMs,
      requests: sum(shards.map(({ requests }) => requests)),
      shards,
      redactKey: redaction?.keyVersion,
    };
    if ('endpoint' in plan.target) plan.marks = await registerAll(storage, bucket, plan);
    const manifest = { bucket, key: replayKeys.manifest(run.name) };
    await storage.putText(bucket, manifest.key, manifestOf(plan), LINES);
    // Last, because a run that no plan names would stay open.
    if (shards.length > 0) mlflow = await place?.openRun(run, startAtEpochMs);
    plan.mlflow = mlflow ?? null;
    await storage.putJson(bucket, replayKeys.plan(run.name), plan);
    // The summarizer reads the plan after writing its order, so one of the two sees the other and ends the MLflow run.
    if ((await stopMark(storage, bucket, run.name)) !== undefined) {
      throw new PermanentError('ReplayStopped', 'The replay was stopped during planning; nothing was sent');
    }
    return { outcome: plan.outcome, manifest, shards: shards.length };
  } catch (error) {
    // The failure of planning matters more than one of MLflow. A retry reuses the run.
    const status = error instanceof Error && error.name === 'ReplayStopped' ? 'KILLED' : 'FAILED';
    if (mlflow) await place?.giveUp(mlflow, status, saidBy(error), now()).catch(() => {});
    throw error;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Writes the schedules. */
function writeSchedules(
  { files, index }: IndexedCaptures,
  job: ReplayJob,
  bounds: ShardBounds,
  own: Work & { run: string },
  remainingMs: () => number,
): Promise<ShardPlan[]> {
  const inTime = function* (): Generator<ScheduledEntry[]> {
    let requests = 0;
    for (const batch of schedule(index, job.options)) {
      assertTime(remainingMs() - FINISH_RESERVE_MS, () => `${requests} requests of the schedule`);
      requests += batch.length;
      yield batch;
    }
  };
  return writeShards({ batches: inTime(), files, warmup: job.options.warmup }, bounds, own);
}

/** Counts the requests of a dry run, while there is time, and writes the counts as its only result. */
async function writeDryRun(
  { files, index }: IndexedCaptures,
  { options }: ReplayJob,
  skipped: ReturnType<typeof skippedFile>,
  { storage, workBucket, run }: Work & { run: string },
  remainingMs: () => number,
  keep: Keep | undefined,
): Promise<void> {
  const counts = await dryRun({
    ...{ files, index, options, keep },
    onSkipped: skipped.add,
    reader: objectReader(storage, files),
    onBatch: (requests) => assertTime(remainingMs() - DRY_RUN_RESERVE_MS, () => `${requests} requests`),
  });
  const text = JSON.stringify({ ...counts, skipped: Object.fromEntries(skipped.reasons) }, null, 1);
  await storage.putText(workBucket, `${areaOf('replayResults', run)}dry-run.json`, `${text}\n`);
}

/** Registers the replay for each of its days before any shard sends: a shard ends within `MARK_MS` and a little of its own mark. */
async function registerAll(storage: Storage, bucket: string, { run, shards, startAtEpochMs }: StoredPlan) {
  const lastMs = Math.max(...shards.map(({ firstDueMs }) => firstDueMs ?? 0));
  const marks: Registration[] = [];
  for (let afterMs = 0; afterMs <= lastMs; afterMs += MARK_MS) {
    marks.push(await registerReplay(storage, bucket, { run, atMs: startAtEpochMs + afterMs }));
  }
  return marks;
}

/** Returns the shards as lines for the Map, each with the time at which it is called. */
function manifestOf({ run, shards, startAtEpochMs, options }: StoredPlan): string {
  const lines = shards.map(({ shard, firstDueMs }) => {
    // Shard 0 first sends the warm-up.
    const lead = SHARD_LEAD_MS + (shard === 0 && options.warmup > 0 ? WARMUP_LEAD_MS : 0);
    const at = startAtEpochMs + (firstDueMs ?? 0) - lead;
    const waitUntil = `${new Date(at).toISOString().slice(0, 19)}Z`;
    return `${JSON.stringify({ run, shard, waitUntil } satisfies ShardManifestLine)}\n`;
  });
  return lines.join('');
}

// ------------------------------------------------------------------------------------------------------------ captures
// Finds the captures of a replay in S3 and sorts them by time, without copying them.

type IndexedCaptures = Awaited<ReturnType<typeof indexObjects>>;

/**
 * Reads all captures of the job and returns their index.
 *
 * @throws PermanentError `NoCaptureFiles`, `OutsideCaptureScope`, `CaptureMissing`, `ReplayTooLarge`, and errors of the
 * storage
 */
async function indexObjects(
  job: ReplayJob,
  onSkipped: OnSkipped,
  { storage, environment, remainingMs }: PlanDependencies,
) {
  const objects = await Array.fromAsync(filesUnder(storage, captureScope(environment), job.source, job.window));
  if (objects.length === 0) {
    throw new PermanentError('NoCaptureFiles', 'There are no capture files under this prefix in this time window', {
      got: `s3://${job.source.bucket}/${job.source.prefix}`,
      expected: 'keys that end with .jsonl, in the hours from source.from to source.to',
    });
  }
  const files = objects.map(
    ({ key: name, lastModifiedMs: _, ...object }): CaptureObject => ({ ...object, name, path: '' }),
  );
  const scanners = scannersOf(storage, objects, DEFAULT_MAX_LINE_BYTES);
  let opened = 0;
  let records = 0;
  const checkTime = (): void =>
    assertTime(remainingMs() - SCHEDULE_RESERVE_MS, () => `${opened} of ${files.length} files, ${records} records`);
  const index = await indexCaptures(files, {
    ...job.window,
    needsTime: isByCapturedTimes(job.options),
    onSkipped,
    scan: () => {
      checkTime();
      opened++;
      return scanners.next().value;
    },
    marks: () => new Marks(storage, environment.WORK_BUCKET),
    onRecord: () => {
      checkTime();
      records++;
    },
  });
  return { files, index };
}

/**
 * An error with advice is better than a timeout with two retries. Nothing has been sent yet.
 *
 * @param planned describes what there was time for
 */
function assertTime(leftMs: number, planned: () => string): void {
  if (leftMs > 0) return;
  throw new PermanentError('ReplayTooLarge', 'There are too many captures to plan them in one execution', {
    got: `the function had time for ${planned()}`,
    expected: 'fewer; narrow the window (source.from, source.to) or the prefix',
  });
}
