/** SummarizeReplay: writes the figures that the command line would write. The files of the requests stay with the shards. */
import type { Storage } from '../../../core/aws/storage.ts';
import type { ExchangesInput } from '../../../core/contract/input.ts';
import type { SummarizeReplayRequest, SummarizeReplayResult } from '../../../core/contract/replay.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { causeOf, withinCause } from '../../../core/errors/cause.ts';
import { toNamedError } from '../../../core/errors/errors.ts';
import type { MonitoringRun } from '../../compare/run-data.ts';
import { type CapturedComparison, COMPARE_FILE } from '../../compare/with-captured.ts';
import { type FinishedReplay, mlflowFactsOf } from '../../finished.ts';
import { runContentOf } from '../../publish/run-content.ts';
import { FILES, figureFiles } from '../../results/result-set.ts';
import type { PublishDependencies, ReplayPublication } from '../publish/publish-replay.ts';
import { raisedText } from '../publish/replay-run.ts';
import { targetFacts } from '../target.ts';
import { plannedSkippedKey, readPlan, type StoredPlan } from '../work-bucket/stored-plan.ts';
import { type Collected, collectShards } from './collect.ts';
import { type Failure, failureOf, missing, remarks, wasStopped } from './verdict.ts';

interface SummarizeDependencies extends Pick<PublishDependencies, 'storage' | 'workBucket'> {
  /** Starts a run of the monitoring, once. @returns the ARN of the execution */
  startMonitoring(run: string, input: ExchangesInput): Promise<string>;
}

interface SummaryContext {
  storage: Storage;
  bucket: string;
  /** Of the files that are written. */
  prefix: string;
  plan: StoredPlan;
  collected: Collected;
  /** The run of the monitoring that was started for the exchanges. */
  monitoringRun: MonitoringRun | undefined;
}

const DRY_RUN_FILE = 'dry-run.json';

/** Content types of the files that are not JSON. */
const CONTENT_TYPES: Record<string, string> = {
  [FILES.summaryCsv]: 'text/csv',
  [FILES.report]: 'text/html; charset=utf-8',
};

/** Writes the figures, and decides whether the execution fails, for example because of lost shards. */
export async function summarizeReplay(
  { run, error }: SummarizeReplayRequest,
  { storage, workBucket: bucket, startMonitoring }: SummarizeDependencies,
): Promise<SummarizeReplayResult> {
  const results = { bucket, prefix: replayKeys.resultPrefix(run.name) };
  const plan = await readPlan(storage, bucket, run.name);
  // The state machine starts with an empty error.
  const failed = error?.Error ? { error: error.Error, cause: causeOf(error.Cause) } : undefined;
  if (!plan) return answer(failed ?? { error: 'ReplayNotPlanned', cause: 'The replay has no plan' }, results);
  if (plan.dryRun) {
    const text = JSON.stringify({ ...plan.dryRun, skipped: plan.skipped }, null, 1);
    await storage.putText(bucket, `${results.prefix}${DRY_RUN_FILE}`, `${text}\n`);
    return answer(failed, results);
  }
  const collected = await collectShards(storage, bucket, plan);
  const started = await monitorExchanges(plan, collected, startMonitoring, bucket).catch(notMonitored);
  const monitoringRun = started && 'arn' in started ? started : undefined;
  const context = { storage, bucket, prefix: results.prefix, plan, collected, monitoringRun };
  const comparison = await writeResults(context);
  const failure = failureOf(plan, collected, failed) ?? (started && 'error' in started ? started : undefined);
  const publication = publicationOf(context, comparison, failure);
  if (publication) await storage.putJson(bucket, replayKeys.publication(run.name), publication);
  return {
    ...answer(failure, results, publication !== undefined),
    ...(monitoringRun ? { monitoringRun: monitoringRun.name } : {}),
  };
}

/**
 * Has the exchanges traced and judged by a run of the monitoring: first, so that it need not wait for the files. Whoever stops a
 * replay waits for nothing, and pays no judge.
 */
async function monitorExchanges(
  { run, mlflow, judge }: StoredPlan,
  collected: Collected,
  start: SummarizeDependencies['startMonitoring'],
  bucket: string,
): Promise<MonitoringRun | undefined> {
  if (!mlflow || collected.sent === 0 || wasStopped(collected)) return undefined;
  const { monitoringRun: name, experiment } = mlflow;
  const arn = await start(name, {
    replay: { run, experimentId: experiment.id },
    evaluate: judge !== null,
    // 0 dollars: the daily budget is the only limit.
    ...(judge && judge.budgetUsd > 0 ? { budgetUsd: judge.budgetUsd } : {}),
  });
  return { name, arn, verdicts: `s3://${bucket}/${replayKeys.verdictsPrefix(run)}` };
}

/** The results are there. Another call of this function starts the run. */
function notMonitored(error: unknown): Failure {
  const { name, message } = toNamedError(error);
  return { error: name, cause: `No run traces and judges the exchanges: ${message}` };
}

/** Returns the content of the replay’s MLflow run, also for a replay without results, so that no run stays open. */
function publicationOf(
  { plan, collected }: SummaryContext,
  comparison: CapturedComparison | undefined,
  failure: Failure | undefined,
): ReplayPublication | undefined {
  if (!plan.mlflow) return undefined;
  const status = wasStopped(collected) ? 'KILLED' : failure ? 'FAILED' : 'FINISHED';
  return {
    mlflow: plan.mlflow,
    content: runContentOf(finishedReplay(plan, collected), status, Date.now(), comparison?.quality),
    failure: failure && raisedText({ Error: failure.error, Cause: failure.cause }),
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

/** @returns the comparison of the replies, if they were compared */
async function writeResults(context: SummaryContext): Promise<CapturedComparison | undefined> {
  const { storage, bucket, prefix, plan, collected } = context;
  const comparison = plan.compare ? collected.replies.result() : undefined;
  const finished = finishedReplay(plan, collected);
  const warnings = [...missing(collected), ...remarks(plan, collected)];
  const { replayReport } = await import('../../report/replay-report.ts');
  const files = {
    ...(comparison ? { [COMPARE_FILE]: `${JSON.stringify(comparison, null, 1)}\n` } : {}),
    [FILES.report]: await replayReport(finished, warnings, comparison),
    // The last one marks complete results.
    ...figureFiles(finished, ownFacts(context)),
  };
  for (const [name, text] of Object.entries(files))
    await storage.putText(bucket, `${prefix}${name}`, text, CONTENT_TYPES[name]);
  return comparison;
}

function finishedReplay(plan: StoredPlan, collected: Collected): FinishedReplay {
  const { run, options, captures, source, target, startAtEpochMs: startMs } = plan;
  const gone = missing(collected);
  return {
    ...collected,
    ...{ run, options, captures, startMs },
    target: targetFacts(target),
    source: `s3://${source.bucket}/${source.prefix}`,
    results: collected,
    incomplete: gone.length > 0 ? gone.join('; ') : undefined,
  };
}

/** What only a cloud replay has in `replay.json`. */
function ownFacts({ plan, collected, monitoringRun }: SummaryContext): Record<string, unknown> {
  const { judge, mlflow, run } = plan;
  const { lost, notBegun, incomplete, late, parts, inputsLeftOut } = collected;
  const own = (key: string): string => key.slice(replayKeys.prefix(run).length);
  return {
    source: plan.source,
    requests: plan.requests,
    shards: {
      planned: plan.shards.length,
      completed: plan.shards.length - lost.length - notBegun.length - incomplete.length,
      skipped_requests: collected.skippedByShards,
      lost,
      not_begun: notBegun,
      incomplete,
      late,
    },
    ...(judge ? { judge: { model: judge.model, budget_usd: judge.budgetUsd } } : {}),
    ...(mlflow ? { mlflow: { ...mlflowFactsOf(mlflow), run_id: mlflow.runId } } : {}),
    ...(monitoringRun ? { monitoring_run: monitoringRun } : {}),
    remarks: remarks(plan, collected),
    // Below the prefix of the execution.
    parts: parts.map((shard) => own(replayKeys.shardPrefix(run, shard))),
    skipped_by_plan: own(plannedSkippedKey(run)),
    ...(inputsLeftOut.length > 0 ? { inputs_left_out: inputsLeftOut } : {}),
  };
}
