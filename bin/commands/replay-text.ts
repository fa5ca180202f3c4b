/** What the replay command prints: the plan of a dry run, the progress, and the figures at the end, as text and as JSON. */
import { whole } from '../../src/core/text/figure-text.ts';
import { durationText, singleLine, type TextOptions } from '../../src/core/text/terminal-text.ts';
import { sparkline } from '../../src/quality/rates-text.ts';
import type { Quality } from '../../src/replay/compare/quality.ts';
import type { DryRun } from '../../src/replay/dry-run.ts';
import { bottleneckOf } from '../../src/replay/finished.ts';
import type { FollowedUp } from '../../src/replay/follow-ups.ts';
import type { RunStats } from '../../src/replay/measure/run-stats.ts';
import metrics from '../../src/replay/metrics.json' with { type: 'json' };
import type { DistributionMetric } from '../../src/replay/metrics.ts';
import type { Published } from '../../src/replay/publish/publish.ts';
import { mlflowRemarks } from '../../src/replay/publish/write-traces.ts';
import { qualityLines } from '../../src/replay/report/quality-sections.ts';
import { durationSeconds } from '../../src/replay/results/summary.ts';
import type { SendProgress } from '../../src/replay/send/job.ts';
import { CAPTURE_FILES } from '../../src/replay/source/open-source.ts';
import { type ReplayResult, unsentWarning } from '../../src/replay/to-directory.ts';
import { dollars, Page, print } from '../cli/output.ts';
import { joinFitting, shareBar, startProgress } from '../cli/progress.ts';
import type { ReplayFlags } from './replay-options.ts';
import { restCommand } from './replay-rest.ts';

/** The captured lines that are not sent, by reason. */
function addSkipped(page: Page, skipped: ReadonlyMap<string, number>): void {
  page.add(`skipped: ${[...skipped.values()].reduce((sum, count) => sum + count, 0)}`);
  for (const [reason, count] of skipped) page.add(`  ${reason}: ${count}`);
}

const NO_CAPTURES = ['NotJson', 'NotACaptureRecord'];

/** Explains why nothing can be sent, and what was expected. */
const nothingToSend = (skipped: ReadonlyMap<string, number>): string =>
  `no record is valid, or none is in the window.${
    NO_CAPTURES.some((reason) => skipped.has(reason)) ? ` Expected: ${CAPTURE_FILES}.` : ''
  }`;

/** Longer schedules are announced before they start. */
const LONG_SECONDS = 1_800;

/** Returns a warning before a long replay; `undefined` for a short one. */
export const longWarning = (seconds: number): string | undefined =>
  seconds < LONG_SECONDS
    ? undefined
    : `The schedule takes ${durationText(seconds)}. Use --speedup to shorten it, or --concurrency to ignore it. Ctrl-C stops it and keeps the results.`;

export function dryRunText(plan: DryRun, skipped: ReadonlyMap<string, number>, out: TextOptions): string {
  const page = new Page(out);
  const estimated = (tokens: { total: number; captured: number }): string => {
    const share = tokens.total === 0 ? 0 : Math.round((100 * tokens.captured) / tokens.total);
    return `${whole(tokens.total)} (${share}% counted by the captured endpoint, the rest estimated)`;
  };
  page.add(`requests: ${plan.requests}`);
  page.add(`streaming: ${plan.streaming}`);
  page.add(`duration: ${durationText(plan.seconds)}`);
  const warning = longWarning(plan.seconds);
  if (warning !== undefined) page.add(`  ${warning}`);
  page.add(`requests per second: mean ${plan.meanPerSecond.toFixed(2)}, peak ${plan.peakPerSecond}`);
  if (plan.shape.length > 1) page.add(`shape: ${sparkline(plan.shape.map((count) => count || null))}`);
  page.add(`bytes: ${whole(plan.bodyBytes)}`);
  page.add(`input tokens: ${estimated(plan.inputTokens)}`);
  page.add(`output tokens: ${estimated(plan.outputTokens)}`);
  page.add('content types:');
  for (const [type, count] of Object.entries(plan.contentTypes)) page.add(`  ${type}: ${count}`);
  addSkipped(page, skipped);
  page.add(plan.requests === 0 ? `Nothing can be sent: ${nothingToSend(skipped)}` : 'Nothing was sent.');
  return page.text();
}

// -------------------------------------------------------------------------------------------------------- figures

/** The rows of the table. The lag of the schedule has a name of its own. */
const ROWS = Object.entries(metrics.table) as [DistributionMetric, string][];
const COLUMNS = ['avg', 'p50', 'p90', 'p95', 'p99', 'max'] as const;
const MAX_ERRORS = 10;
const MAX_ERROR_CHARS = 120;

/** Prints what was measured, as text or JSON. @param followed nothing of it, if the result files could not be written */
export function printResult(
  result: ReplayResult,
  followed: Partial<FollowedUp>,
  flags: ReplayFlags,
  given: ReplayPlace,
) {
  const place = { ...given, restCommand: restCommand(process.argv.slice(2), flags, result) };
  const asText = (out: TextOptions) => resultText(result, followed, place, out);
  print<ReplayOutput>(replayAsJson(result, followed, place), flags.json, asText);
}

/** @param place of the results: a directory, and the experiment in MLflow */
export function resultText(
  result: ReplayResult,
  followed: Partial<FollowedUp>,
  place: ReplayPlace,
  out: TextOptions,
): string {
  const page = new Page(out);
  const { comparison, published } = followed;
  if (comparison) addQuality(page, comparison.quality, comparison.judgeUsd);
  if (published) addPublished(page, place.experiment, published);
  if (comparison || published) page.add('');
  addFigures(page, result);
  const { stats, skippedReasons } = result.results;
  const latencies = ROWS.flatMap(([metric, name]) => {
    const summary = stats.distributions.get(metric)?.summary();
    return summary ? [[name, ...COLUMNS.map((column) => summary[column].toFixed(2))]] : [];
  });
  page.add('');
  page.table(['ms', 'mean', ...COLUMNS.slice(1)], latencies);
  if (stats.errors.size > 0) page.section('errors:');
  for (const { error, count } of stats.errorsByCount.slice(0, MAX_ERRORS)) {
    const said = singleLine(error.message).slice(0, MAX_ERROR_CHARS);
    page.add(`  ${count} × ${[error.code, `${error.type}: ${said}`].filter(Boolean).join(' ')}`);
  }
  const unsent = unsentWarning(result);
  const bottleneck = bottleneckOf(result);
  const laterPasses = result.rest ? result.options.repeat - result.rest.pass - 1 : 0;
  const remarks = [
    bottleneck && `The client was the bottleneck: ${bottleneck}.`,
    result.sent === 0 && `Nothing was sent: ${nothingToSend(skippedReasons)}`,
    unsent,
    result.wasCancelled && 'The replay was stopped. The results until then have been written.',
    place.restCommand && `To send the rest: ${place.restCommand}`,
    result.rest?.again && `It sends ${result.rest.again} requests again, which have the time of its first one.`,
    laterPasses > 0 &&
      `After it come ${laterPasses} more passes: the command of this run, with --repeat ${laterPasses}.`,
    `results: ${place.directory}${place.report === undefined ? '' : `; to read: ${place.report}`}`,
  ];
  for (const remark of remarks) {
    if (!remark) continue;
    page.add('');
    page.add(remark);
  }
  return page.text();
}

function addFigures(page: Page, { results: { stats, skippedReasons }, sent, unsent }: ReplayResult): void {
  const seconds = durationSeconds(stats);
  const perSecond = (value: number): string => (seconds === 0 ? '0' : (value / seconds).toFixed(2));
  page.add(`sent: ${sent}`);
  page.add(`succeeded: ${stats.succeeded}`);
  page.add(`failed: ${stats.failed}`);
  page.add(`cancelled: ${stats.cancelled}`);
  addSkipped(page, skippedReasons);
  page.add(`duration: ${seconds < 60 ? `${seconds.toFixed(2)} s` : durationText(seconds)}`);
  page.add(`requests per second: ${perSecond(stats.succeeded)}`);
  if (unsent > 0) page.add(`unsent: ${unsent}`);
  const output = stats.distributions.get('output_sequence_length')?.sum;
  if (output !== undefined) page.add(`output tokens per second: ${perSecond(output)}`);
  if (stats.withObjectives) page.add(`good requests: ${stats.good} of ${stats.completed}`);
}

/** @param judgeUsd cost of the judge; `null`: its price is unknown; `undefined`: it was not asked */
export function addQuality(page: Page, quality: Quality, judgeUsd: number | null | undefined): void {
  for (const [name, value] of qualityLines(quality)) page.add(`${name}: ${value}`);
  if (judgeUsd !== undefined) page.add(`judge: ${dollars(judgeUsd)}`);
}

function addPublished(page: Page, experiment: string, published: Published): void {
  const { runId, traces, assessments, leftOut } = published;
  page.add(`MLflow run: ${runId} in experiment ${experiment}`);
  page.add(`MLflow traces: ${traces}`);
  if (assessments) page.add(`MLflow assessments: ${assessments.written}`);
  for (const remark of mlflowRemarks(published)) page.add(remark);
  for (const file of leftOut) page.add(`not uploaded to MLflow: ${file}`);
}

interface ReplayPlace {
  directory: string;
  /** Of the HTML report, if it was written. */
  report?: string | undefined;
  /** In MLflow; empty without it. */
  experiment: string;
  /** Sends the rest of the schedule. */
  restCommand?: string | undefined;
}

/** What `--json` prints. */
export type ReplayOutput = ReturnType<typeof replayAsJson>;

function replayAsJson(result: ReplayResult, followed: Partial<FollowedUp>, place: ReplayPlace) {
  const { directory, experiment, restCommand } = place;
  const { stats, skippedReasons } = result.results;
  const { comparison, published, failures = [] } = followed;
  return {
    run: result.run,
    /** Of the result files. */
    directory,
    sent: result.sent,
    succeeded: stats.succeeded,
    failed: stats.failed,
    cancelled: stats.cancelled,
    unsent: result.unsent,
    /** The command that sends the rest of the schedule. */
    restCommand,
    /** Captured lines that are not sent, by reason. */
    skipped: Object.fromEntries(skippedReasons),
    seconds: durationSeconds(stats),
    /** By Ctrl-C. */
    stopped: result.wasCancelled,
    /** With `--goodput`. */
    goodRequests: stats.withObjectives ? stats.good : undefined,
    /** Why the client, and not the target, may be what was measured. */
    bottleneck: bottleneckOf(result),
    /** AIPerf's metrics, in ms and tokens. */
    metrics: Object.fromEntries(
      [...stats.distributions].flatMap(([metric, distribution]) => {
        const summary = distribution.summary();
        return summary ? [[metric, summary]] : [];
      }),
    ),
    errors: stats.errorsByCount.map(({ error: { code, type, message }, count }) => ({ code, type, message, count })),
    /** With `--compare`. */
    comparison,
    mlflow: published && { runId: published.runId, experiment, traces: published.traces, refused: published.refused },
    /** Of the steps after the replay. */
    failures,
  };
}

// -------------------------------------------------------------------------------------------------------- progress

const DRAW_MS = 500;

const ms = (value: number | undefined): string =>
  value === undefined ? '–' : `${value.toFixed(value < 10 ? 1 : 0)} ms`;

interface Shown {
  progress: SendProgress;
  stats: RunStats;
  /** Total number of requests, as far as it is known. */
  total(): number;
  /** Length of the schedule in seconds, if there is one. */
  seconds: number | undefined;
}

/** Shows how far a replay is, on standard error. @returns ends it */
export function showReplay(shown: Shown): () => void {
  const line = startProgress(process.stderr);
  const { isTTY, columns } = process.stderr;
  const draw = (): void => line.show(joinFitting(replayFacts(shown, isTTY), isTTY ? columns - 1 : undefined));
  const timer = setInterval(draw, DRAW_MS).unref();
  return () => {
    clearInterval(timer);
    line.end();
  };
}

/** The more important first. */
function replayFacts({ progress, stats, total, seconds }: Shown, isTerminal: boolean): string[] {
  const elapsed = (performance.now() - progress.startAt) / 1000;
  const [sent, all] = [progress.sent(), total()];
  const at = (metric: DistributionMetric, percentile: number) =>
    ms(stats.distributions.get(metric)?.percentile(percentile));
  const { succeeded, failed, cancelled, errorsByCount } = stats;
  const done = seconds ? elapsed / seconds : all ? sent / all : 0;
  const time = `${durationText(elapsed)}${seconds ? ` / ${durationText(seconds)}` : ''}`;
  const [worst] = errorsByCount;
  return [
    `${isTerminal ? `${shareBar(done)} ` : ''}${time} sent ${sent}${all ? `/${all}` : ''}`,
    `ok ${succeeded}`,
    `failed ${failed}${cancelled ? ` (cancelled ${cancelled})` : ''}`,
    `latency p50 ${at('request_latency', 50)}`,
    `p99 ${at('request_latency', 99)}`,
    `lag p99 ${at('credit_to_start_latency', 99)}`,
    `in flight ${progress.inFlight()}`,
    `${(sent / Math.max(elapsed, 0.001)).toFixed(1)}/s`,
    `effective latency p99 ${at('effective_latency', 99)}`,
    ...(stats.distributions.has('time_to_first_token') ? [`first token p50 ${at('time_to_first_token', 50)}`] : []),
    ...(worst ? [singleLine(`${worst.count} × ${worst.error.code ?? ''} ${worst.error.type}`)] : []),
  ];
}
