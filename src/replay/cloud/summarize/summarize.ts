/** SummarizeReplay: the files of all shards → the result set that the command line would have written. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SummarizeReplayRequest, SummarizeReplayResult } from '../../../contract/replay.ts';
import { replayKeys } from '../../../contract/work-keys.ts';
import { causeOf, withinCause } from '../../../shared/cause.ts';
import { putFile } from '../../../shared/put-file.ts';
import type { Storage } from '../../../shared/storage.ts';
import { REPLIES_FILE } from '../../compare/replies-file.ts';
import { type CapturedComparison, COMPARE_FILE, JUDGED_FILE } from '../../compare/with-captured.ts';
import { metricsOf, paramsOf } from '../../publish/run-content.ts';
import { REFUSED_FILE } from '../../publish/write-traces.ts';
import { qualitySection, regressionsSection } from '../../report/quality-sections.ts';
import { replayReport } from '../../report/replay-report.ts';
import { FILES, writeFigures } from '../../results/result-set.ts';
import { clientBottleneck, timingOf } from '../../to-directory.ts';
import { FIGURES_RESERVE_MS, MERGED_BYTES_PER_MS } from '../limits.ts';
import type { ReplayPublication } from '../publish/publish-replay.ts';
import { raisedText } from '../publish/replay-run.ts';
import { targetFacts } from '../target.ts';
import { SHARD_FILES } from '../work-bucket/keys.ts';
import type { StoredPlan } from '../work-bucket/stored-plan.ts';
import { type Collected, collectShards } from './collect.ts';
import { type CollectedEvaluations, collectEvaluations } from './collect-evaluations.ts';
import {
  bytesOf,
  type MergeContext,
  mergeInputs,
  mergeParts,
  mergeRecords,
  mergeReplies,
  mergeSkipped,
} from './merge-files.ts';
import { type Failure, failureOf, missing, notEvaluated, remarks, wasStopped } from './verdict.ts';

interface SummarizeDependencies {
  storage: Storage;
  workBucket: string;
  remainingMs(): number;
}

const DRY_RUN_FILE = 'dry-run.json';

/** Files that are made on the disk, and what they are; the last one says that all are there. */
const CONTENT_TYPES: Record<string, string> = {
  [FILES.summaryJson]: 'application/json',
  [FILES.summaryCsv]: 'text/csv',
  [FILES.inputs]: 'application/json',
  [FILES.slicesJson]: 'application/json',
  [FILES.slicesCsv]: 'text/csv',
  [FILES.report]: 'text/html; charset=utf-8',
  [COMPARE_FILE]: 'application/json',
  [FILES.replay]: 'application/json',
};

/** Lost and incomplete shards, and failed requests above the allowed rate, make the execution fail: with its results. */
export async function summarizeReplay(
  { run, error }: SummarizeReplayRequest,
  { storage, workBucket: bucket, remainingMs }: SummarizeDependencies,
): Promise<SummarizeReplayResult> {
  const results = { bucket, prefix: replayKeys.resultPrefix(run.name) };
  const plan = await storage.getJson<StoredPlan>(bucket, replayKeys.plan(run.name));
  // The state machine starts with an empty error.
  const failed = error?.Error ? { error: error.Error, cause: causeOf(error.Cause) } : undefined;
  if (!plan) return answer(failed ?? { error: 'ReplayNotPlanned', cause: 'The replay has no plan' }, results);
  if (plan.dryRun) {
    const text = JSON.stringify({ ...plan.dryRun, skipped: plan.skipped }, null, 1);
    await storage.putText(bucket, `${results.prefix}${DRY_RUN_FILE}`, `${text}\n`);
    return answer(failed, results);
  }
  const collected = await collectShards(storage, bucket, plan);
  const evaluations = await collectEvaluations(storage, bucket, plan, collected);
  const context = { storage, bucket, prefix: results.prefix, plan, collected, evaluations };
  const comparison = await writeResults(context, remainingMs);
  const raised = failed && { Error: failed.error, Cause: failed.cause };
  const failure = failureOf(plan, collected, evaluations, raised);
  const publication = publicationOf(context, comparison, failure);
  if (publication) await storage.putJson(bucket, replayKeys.publication(run.name), publication);
  return answer(failure, results, publication !== undefined);
}

/** What its run in MLflow is to say of a replay, also of one that came to nothing: no run stays open. */
function publicationOf(
  { plan, collected, evaluations }: MergeContext,
  comparison: CapturedComparison | undefined,
  failure: Failure | undefined,
): ReplayPublication | undefined {
  if (!plan.mlflow) return undefined;
  return {
    mlflow: plan.mlflow,
    content: {
      endMs: collected.endMs,
      atMs: Date.now(),
      status: wasStopped(collected, evaluations) ? 'KILLED' : failure ? 'FAILED' : 'FINISHED',
      metrics: metricsOf(collected.stats, isScheduled(plan), comparison?.quality),
      params: paramsOf(targetFacts(plan.target), plan.options),
    },
    ...(failure ? { failure: raisedText({ Error: failure.error, Cause: failure.cause }) } : {}),
  };
}

const answer = (
  failure: Failure | undefined,
  results: SummarizeReplayResult['results'],
  publish = false,
): SummarizeReplayResult => ({
  ok: failure === undefined,
  error: failure?.error ?? '',
  cause: withinCause(failure?.cause ?? ''),
  results,
  publish,
});

/** A file that stays in its parts, under the shards' prefixes. */
interface LeftOut {
  file: string;
  reason: string;
}

/** @returns what the comparison came to, where there was one and time to put it together */
async function writeResults(context: MergeContext, remainingMs: () => number): Promise<CapturedComparison | undefined> {
  const directory = await mkdtemp(join(tmpdir(), 'replay-summary-'));
  const { plan, collected, evaluations } = context;
  const leftOut: LeftOut[] = [];
  /** Merges a file if there is time for it: the figures are worth more than any file of lines. */
  const merge = async <T>(file: string, parts: string, work: () => Promise<T>): Promise<T | undefined> => {
    const bytes = bytesOf(collected, parts);
    if (bytes <= (remainingMs() - FIGURES_RESERVE_MS) * MERGED_BYTES_PER_MS) return work();
    const where = replayKeys.shardsPrefix(plan.run);
    leftOut.push({ file, reason: `no time to merge ${bytes} bytes; its parts are under ${where}` });
    return undefined;
  };
  try {
    await merge(FILES.records, FILES.records, () => mergeRecords(context, FILES.records));
    await mergeSkipped(context);
    await mergeParts(context, JUDGED_FILE, evaluations.parts.judged);
    await mergeParts(context, REFUSED_FILE, evaluations.parts.refused);
    const comparison = plan.compare ? await merge(REPLIES_FILE, REPLIES_FILE, () => mergeReplies(context)) : undefined;
    if (comparison) await writeFile(join(directory, COMPARE_FILE), `${JSON.stringify(comparison, null, 1)}\n`);
    const reason = await merge(FILES.inputs, SHARD_FILES.inputs, () => mergeInputs(context, directory));
    if (reason) leftOut.push({ file: FILES.inputs, reason });
    if (plan.raw) await merge(FILES.raw, FILES.raw, () => mergeRecords(context, FILES.raw));
    await writeOwn(context, directory, leftOut);
    await writeReport(context, directory, comparison);
    await putFiles(context, directory);
    return comparison;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function putFiles({ storage, bucket, prefix }: MergeContext, directory: string): Promise<void> {
  for (const [name, contentType] of Object.entries(CONTENT_TYPES)) {
    const path = join(directory, name);
    if (existsSync(path)) await putFile(storage, bucket, `${prefix}${name}`, path, contentType);
  }
}

const isScheduled = (plan: StoredPlan): boolean => timingOf(plan.options).kind !== 'concurrency';

const bottleneckOf = (plan: StoredPlan, { stats }: Collected): string | undefined =>
  isScheduled(plan) ? clientBottleneck(stats) : undefined;

async function writeOwn(
  { plan, collected, evaluations }: MergeContext,
  directory: string,
  leftOut: readonly LeftOut[],
): Promise<void> {
  const gone = missing(collected);
  const { notBegun } = collected;
  const facts = {
    run: plan.run,
    scheduled: isScheduled(plan),
    startMs: plan.startAtEpochMs,
    endMs: collected.endMs,
    wasCancelled: collected.wasCancelled,
    isComplete: gone.length === 0 && !collected.wasCancelled,
    ...(gone.length > 0 ? { incompleteReason: gone.join('; ') } : {}),
  };
  await writeFigures(directory, collected, facts, {
    target: targetFacts(plan.target),
    options: plan.options,
    source: plan.source,
    captures: plan.captures,
    start_ms: facts.startMs,
    end_ms: facts.endMs,
    requests: plan.requests,
    sent: collected.sent,
    unsent: collected.unsent,
    was_cancelled: collected.wasCancelled,
    client_bottleneck: bottleneckOf(plan, collected) ?? null,
    connections: { max_open: collected.maxConnections, failed_ahead: collected.warmFailures },
    shards: {
      planned: plan.shards.length,
      completed: plan.shards.length - collected.lost.length - notBegun.length - collected.incomplete.length,
      skipped_requests: collected.skippedByShards,
      lost: collected.lost,
      not_begun: notBegun,
      incomplete: collected.incomplete,
      late: collected.late,
      not_kept: collected.notKept,
    },
    ...evaluationFacts(plan, evaluations),
    remarks: remarks(plan, collected, evaluations),
    ...(leftOut.length > 0 ? { left_out: leftOut } : {}),
  });
}

/** For `replay.json`. */
const evaluationFacts = ({ judge, mlflow }: StoredPlan, found: CollectedEvaluations): Record<string, unknown> => ({
  ...(judge
    ? { judge: { model: judge.model, budget_usd: judge.budgetUsd, usd: found.usd, judged: found.judged } }
    : {}),
  ...(mlflow
    ? {
        mlflow: {
          experiment: mlflow.experiment.name,
          run_id: mlflow.runId,
          traces: found.traces,
          refused: found.refused,
          linked: found.linked,
          ...(judge
            ? { assessments: found.assessments.written, verdicts_without_trace: found.assessments.withoutTrace }
            : {}),
        },
      }
    : {}),
  ...(judge || mlflow ? { unevaluated_shards: found.unevaluated } : {}),
});

async function writeReport(
  { plan, collected, evaluations }: MergeContext,
  directory: string,
  comparison: CapturedComparison | undefined,
): Promise<void> {
  const { stats, report, skippedReasons, unsent } = collected;
  const page = await replayReport(stats, report, {
    run: plan.run,
    target: targetFacts(plan.target),
    startMs: plan.startAtEpochMs,
    scheduled: isScheduled(plan),
    wasCancelled: collected.wasCancelled,
    unsent,
    bottleneck: bottleneckOf(plan, collected),
    skipped: skippedReasons,
    warnings: [...missing(collected), ...notEvaluated(evaluations), ...remarks(plan, collected, evaluations)],
    ...(comparison
      ? {
          extra:
            qualitySection(comparison.quality, 'Replies, compared with the captured ones') +
            regressionsSection(comparison.regressions, comparison.quality.regressed),
        }
      : {}),
  });
  await writeFile(join(directory, FILES.report), page);
}
