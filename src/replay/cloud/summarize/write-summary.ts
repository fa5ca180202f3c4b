/** Writes the figures that the command line would write. The files of the requests stay with the shards. */
import type { Work } from '../../../core/aws/storage.ts';
import type { Raised } from '../../../core/contract/execution.ts';
import type { ExchangesInput } from '../../../core/contract/input.ts';
import type { SummarizeReplayResult } from '../../../core/contract/replay.ts';
import { areaOf, replayKeys } from '../../../core/contract/work-keys.ts';
import { causeOf, withinCause } from '../../../core/errors/cause.ts';
import { toNamedError } from '../../../core/errors/errors.ts';
import { sum } from '../../../core/values/sum.ts';
import type { MonitoringRun } from '../../compare/run-data.ts';
import { COMPARE_FILE } from '../../compare/with-captured.ts';
import { type FinishedReplay, mlflowFactsOf, neverSent, tooManyFailed } from '../../finished.ts';
import { runContentOf } from '../../publish/run-content.ts';
import { FILES, figureFiles } from '../../results/result-set.ts';
import { MAX_CONNECTIONS } from '../limits.ts';
import { targetFacts } from '../target.ts';
import { plannedSkippedKey, type StoredPlan } from '../work-bucket/stored-plan.ts';
import { type Collected, collectShards } from './collect.ts';
import type { ReplayPublication } from './publish-replay.ts';

export interface SummaryDependencies extends Work {
  /** Starts a run of the monitoring, once. @returns the ARN of the execution */
  startMonitoring(run: string, input: ExchangesInput): Promise<string>;
}

/** Content types of the files that are not JSON. */
const CONTENT_TYPES: Record<string, string> = {
  [FILES.summaryCsv]: 'text/csv',
  [FILES.report]: 'text/html; charset=utf-8',
};

/**
 * Writes the figures, and decides whether the execution fails, for example because of lost shards.
 *
 * @param plan missing if planning failed
 * @param raised the error that stopped planning or the Map
 */
export async function writeSummary(
  run: string,
  plan: StoredPlan | undefined,
  raised: Raised | undefined,
  { storage, workBucket: bucket, startMonitoring }: SummaryDependencies,
): Promise<SummarizeReplayResult> {
  const results = { bucket, prefix: areaOf('replayResults', run) };
  const answer = (failure: Failure | undefined, monitoringRun?: MonitoringRun): SummarizeReplayResult => ({
    ok: failure === undefined,
    error: failure?.error ?? '',
    cause: withinCause(failure?.cause ?? ''),
    results,
    ...(monitoringRun ? { monitoringRun: monitoringRun.name } : {}),
  });
  const failed = raised && { error: raised.Error, cause: causeOf(raised.Cause) };
  if (!plan) return answer(failed ?? { error: 'ReplayNotPlanned', cause: 'The replay has no plan' });
  if (plan.outcome === 'dryRun') return answer(failed);
  const collected = await collectShards(storage, bucket, plan);
  const started = await monitorExchanges(plan, collected, startMonitoring, bucket).catch(notMonitored);
  const monitoringRun = started && 'arn' in started ? started : undefined;
  const finished = finishedReplay(plan, collected);
  const comparison = plan.compare ? collected.replies.result() : undefined;
  const { replayReport } = await import('../../report/replay-report.ts');
  const files = {
    ...(comparison ? { [COMPARE_FILE]: `${JSON.stringify(comparison, null, 1)}\n` } : {}),
    [FILES.report]: await replayReport(finished, [...missing(collected), ...remarks(plan, collected)], comparison),
    // The last one marks complete results.
    ...figureFiles(finished, ownFacts(plan, collected, monitoringRun)),
  };
  for (const [name, text] of Object.entries(files))
    await storage.putText(bucket, `${results.prefix}${name}`, text, CONTENT_TYPES[name]);
  const failure = failureOf(plan, collected, failed) ?? (started && 'error' in started ? started : undefined);
  if (plan.mlflow) {
    // Also for a replay without results, so that no run stays open.
    const status = wasStopped(collected) ? 'KILLED' : failure ? 'FAILED' : 'FINISHED';
    const content = runContentOf(finished, status, comparison?.quality);
    const publication: ReplayPublication = { mlflow: plan.mlflow, content, failure: failure && failureText(failure) };
    await storage.putJson(bucket, replayKeys.publication(run), publication);
  }
  return answer(failure, monitoringRun);
}

/**
 * Starts a monitoring run that traces and judges the exchanges. It starts first, so that it need not wait for the
 * files. A replay that was stopped starts no run: its user wants no delay and no judge to pay.
 */
async function monitorExchanges(
  { run, mlflow, judge }: StoredPlan,
  collected: Collected,
  start: SummaryDependencies['startMonitoring'],
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
  return { name, arn, verdicts: `s3://${bucket}/${areaOf('replayVerdicts', run)}` };
}

/** The results are there. Another call of this function starts the run. */
function notMonitored(error: unknown): Failure {
  const { name, message } = toNamedError(error);
  return { error: name, cause: `No run traces and judges the exchanges: ${message}` };
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

/** Returns the properties of `replay.json` that only a cloud replay has. */
function ownFacts(plan: StoredPlan, collected: Collected, monitoringRun: MonitoringRun | undefined) {
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

// ------------------------------------------------------------------------------------------------------------- verdict
// Decides whether the execution of a replay fails, and describes what is missing.

type Failure = Pick<SummarizeReplayResult, 'error' | 'cause'>;

const failureText = ({ error, cause }: Failure): string => (cause === '' ? error : `${error}: ${cause}`);

/** Shards that a message names. */
const MAX_NAMED = 10;

const named = (shards: readonly { shard: number }[]): string =>
  shards
    .slice(0, MAX_NAMED)
    .map(({ shard }) => shard)
    .join(', ') + (shards.length > MAX_NAMED ? ' …' : '');

const firstFailure = (shards: readonly { failure?: { name: string; message: string } }[]): string => {
  const failure = shards.find((shard) => shard.failure)?.failure;
  return failure ? `; first failure: ${failure.name}: ${failure.message}` : '';
};

/** Describes the missing requests, one line for each reason. */
export function missing({ lost, notBegun, incomplete, stats }: Collected): string[] {
  const lines: string[] = [];
  const shardsText = (shards: readonly { shard: number; requests: number }[]): string =>
    `${shards.length} (${named(shards)}), with ${sum(shards.map(({ requests }) => requests))} requests`;
  if (notBegun.length > 0) lines.push(`shards not started: ${shardsText(notBegun)}`);
  if (lost.length > 0) {
    const started = lost.filter(({ claimed }) => claimed).length;
    lines.push(
      `shards lost: ${shardsText(lost)}, of which ${started} had started and may have sent some${firstFailure(lost)}`,
    );
  }
  for (const [stopped, reason] of [
    [true, 'the replay was stopped'],
    [false, 'their shard ran out of time'],
  ] as const) {
    const cut = incomplete.filter((shard) => shard.unsent > 0 && shard.stopped === stopped);
    const unsent = sum(cut.map((shard) => shard.unsent));
    if (unsent > 0) lines.push(`requests not sent because ${reason}: ${unsent} (shards ${named(cut)})`);
  }
  const unread = sum(incomplete.map((shard) => shard.unread));
  if (unread > 0) lines.push(`requests not sent because their captures could no longer be read: ${unread}`);
  const own = neverSent(stats);
  return own === undefined ? lines : [...lines, own];
}

/** Further remarks above the figures. */
export function remarks(plan: StoredPlan, { late, maxConnectionsOfOne }: Collected): string[] {
  const lines: string[] = [];
  if (plan.judge?.warning !== undefined) lines.push(plan.judge.warning);
  if (late.length > 0) {
    const most = Math.round(Math.max(...late.map(({ lateMs }) => lateMs)));
    lines.push(
      `Shards that started late: ${late.length} (${named(late)}), by at most ${most} ms. Their requests keep their ` +
        'intervals, and the delay counts as schedule lag',
    );
  }
  if (maxConnectionsOfOne >= MAX_CONNECTIONS) {
    lines.push(
      `A shard used all of its ${MAX_CONNECTIONS} connections, so requests may have waited for one; use more shards ` +
        '(shard.requestsPerSecond)',
    );
  }
  return lines;
}

/** Whether a stop order had any effect on sending. An order that arrives after the last request has no effect. */
const wasStopped = ({ stop, wasCancelled }: Pick<Collected, 'stop' | 'wasCancelled'>): boolean =>
  stop !== undefined && wasCancelled;

/**
 * Explains why the execution fails. Returns `undefined` if it succeeds. @param raised the error that stopped planning
 * or the Map
 */
export function failureOf(plan: StoredPlan, collected: Collected, raised: Failure | undefined): Failure | undefined {
  const gone = missing(collected);
  const rest = raised ? [...gone, failureText(raised)] : gone;
  const { stop } = collected;
  if (stop !== undefined && wasStopped(collected)) {
    const stopped = `The replay was stopped at ${new Date(stop).toISOString()}`;
    return { error: 'ReplayCancelled', cause: [stopped, ...rest].join('; ') };
  }
  if (gone.length > 0) return { error: 'ReplayIncomplete', cause: rest.join('; ') };
  if (raised) return raised;
  if (collected.stats.completed === 0) {
    const reasons = [...collected.skippedReasons].map(([reason, count]) => `${reason}: ${count}`).join(', ');
    const cause = reasons === '' ? 'the window has no requests' : `no record could be sent (${reasons})`;
    return { error: 'NothingSent', cause: `Nothing was sent: ${cause}` };
  }
  const tooMany = tooManyFailed(collected.stats, plan.options.maxErrorRate);
  return tooMany === undefined ? undefined : { error: 'ReplayErrorRate', cause: tooMany };
}
