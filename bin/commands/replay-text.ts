/** What the replay command prints: the plan of a dry run, the progress, and the figures at the end, as text and as JSON. */
import { whole } from '../../src/core/text/figure-text.ts';
import { durationText, singleLine } from '../../src/core/text/terminal-text.ts';
import { sum } from '../../src/core/values/sum.ts';
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
import { qualityFigures } from '../../src/replay/report/quality-sections.ts';
import { durationSeconds } from '../../src/replay/results/summary.ts';
import type { SendProgress } from '../../src/replay/send/job.ts';
import { CAPTURE_FILES } from '../../src/replay/source/open-source.ts';
import { type ReplayResult, unsentWarning } from '../../src/replay/to-directory.ts';
import { dollars, print } from '../cli/output.ts';
import { block, exact, facts, type Page, section, table } from '../cli/page.ts';
import { type Facts, startProgress } from '../cli/progress.ts';
import type { ReplayFlags } from './replay-options.ts';
import { restCommand } from './replay-rest.ts';

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

/** The captured lines that are not sent, by reason. */
const skippedPage = (skipped: ReadonlyMap<string, number>): Page => [
  `skipped: ${sum([...skipped.values()])}`,
  facts(Object.fromEntries(skipped)),
];

export function dryRunPage(plan: DryRun, skipped: ReadonlyMap<string, number>): Page {
  const { requests, streaming, seconds, meanPerSecond, peakPerSecond, shape, bodyBytes, contentTypes } = plan;
  const estimated = (tokens: { total: number; captured: number }): string => {
    const share = tokens.total === 0 ? 0 : Math.round((100 * tokens.captured) / tokens.total);
    return `${whole(tokens.total)} (${share}% counted by the captured endpoint, the rest estimated)`;
  };
  return [
    ...facts({ requests, streaming, duration: durationText(seconds) }),
    [longWarning(seconds)],
    ...facts({
      'requests per second': `mean ${meanPerSecond.toFixed(2)}, peak ${peakPerSecond}`,
      shape: shape.length > 1 && sparkline(shape.map((count) => count || null)),
      bytes: whole(bodyBytes),
      'input tokens': estimated(plan.inputTokens),
      'output tokens': estimated(plan.outputTokens),
    }),
    'content types:',
    facts(contentTypes),
    ...skippedPage(skipped),
    requests === 0 ? `Nothing can be sent: ${nothingToSend(skipped)}` : 'Nothing was sent.',
  ];
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
  print<ReplayOutput>(replayAsJson(result, followed, place), flags.json, resultPage(result, followed, place));
}

/** @param place of the results: a directory, and the experiment in MLflow */
export function resultPage(result: ReplayResult, followed: Partial<FollowedUp>, place: ReplayPlace): Page {
  const { seconds, unsent, bottleneck, metrics, comparison, ...output } = replayAsJson(result, followed, place);
  const { sent, succeeded, failed, cancelled, errors } = output;
  const { results, rest, options, wasCancelled } = result;
  const { stats, skippedReasons } = results;
  const perSecond = (value: number): string => (seconds === 0 ? '0' : (value / seconds).toFixed(2));
  const tokens = stats.distributions.get('output_sequence_length')?.sum;
  const { again = 0, pass = 0 } = rest ?? {};
  const laterPasses = rest ? options.repeat - pass - 1 : 0;
  const latencies = ROWS.map(([metric, name]) => {
    const summary = metrics[metric];
    return summary && [name, ...COLUMNS.map((column) => summary[column].toFixed(2))];
  });
  const said = errors.slice(0, MAX_ERRORS).map(({ code, type, message, count }) => {
    return `${count} × ${code ? `${code} ` : ''}${type}: ${singleLine(message).slice(0, MAX_ERROR_CHARS)}`;
  });
  const remarks = [
    bottleneck && `The client was the bottleneck: ${bottleneck}.`,
    sent === 0 && `Nothing was sent: ${nothingToSend(skippedReasons)}`,
    unsentWarning(result),
    wasCancelled && 'The replay was stopped. The results until then have been written.',
    place.restCommand && exact(`To send the rest: ${place.restCommand}`),
    again > 0 && `It sends ${again} requests again, which have the time of its first one.`,
    laterPasses > 0 &&
      `After it come ${laterPasses} more passes: the command of this run, with --repeat ${laterPasses}.`,
    `results: ${place.directory}${place.report === undefined ? '' : `; to read: ${place.report}`}`,
  ];
  return [
    ...(comparison ? qualityPage(comparison.quality, comparison.judgeUsd) : []),
    ...(followed.published ? publishedPage(place.experiment, followed.published) : []),
    block(
      ...facts({ sent, succeeded, failed, cancelled }),
      ...skippedPage(skippedReasons),
      ...facts({
        duration: seconds < 60 ? `${seconds.toFixed(2)} s` : durationText(seconds),
        'requests per second': perSecond(succeeded),
        unsent: unsent > 0 && unsent,
        'output tokens per second': tokens !== undefined && perSecond(tokens),
        'good requests': stats.withObjectives && `${stats.good} of ${stats.completed}`,
      }),
    ),
    block(table(latencies, ['ms', 'mean', ...COLUMNS.slice(1)])),
    section('errors', ...said),
    ...remarks.map((remark) => block(remark)),
  ];
}

/** @param judgeUsd cost of the judge; `null`: its price is unknown; `undefined`: it was not asked */
export const qualityPage = (quality: Quality, judgeUsd: number | null | undefined): Page => [
  ...facts(qualityFigures(quality)),
  judgeUsd !== undefined && `judge: ${dollars(judgeUsd)}`,
];

const publishedPage = (experiment: string, published: Published): Page => [
  ...facts({
    'MLflow run': `${published.runId} in experiment ${experiment}`,
    'MLflow traces': published.traces,
    'MLflow assessments': published.assessments?.written,
  }),
  ...mlflowRemarks(published),
  ...published.leftOut.map((file) => `not uploaded to MLflow: ${file}`),
];

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
  const timer = setInterval(() => line.show(replayFacts(shown)), DRAW_MS).unref();
  return () => {
    clearInterval(timer);
    line.end();
  };
}

function replayFacts({ progress, stats, total, seconds }: Shown): Facts {
  const elapsed = (performance.now() - progress.startAt) / 1000;
  const [sent, all] = [progress.sent(), total()];
  const at = (metric: DistributionMetric, percentile: number) =>
    ms(stats.distributions.get(metric)?.percentile(percentile));
  const { succeeded, failed, cancelled, errorsByCount, distributions } = stats;
  const [worst] = errorsByCount;
  const facts = [
    `${durationText(elapsed)}${seconds ? ` / ${durationText(seconds)}` : ''} sent ${sent}${all ? `/${all}` : ''}`,
    `ok ${succeeded}`,
    `failed ${failed}${cancelled ? ` (cancelled ${cancelled})` : ''}`,
    `latency p50 ${at('request_latency', 50)}`,
    `p99 ${at('request_latency', 99)}`,
    `lag p99 ${at('credit_to_start_latency', 99)}`,
    `in flight ${progress.inFlight()}`,
    `${(sent / Math.max(elapsed, 0.001)).toFixed(1)}/s`,
    `effective latency p99 ${at('effective_latency', 99)}`,
    distributions.has('time_to_first_token') && `first token p50 ${at('time_to_first_token', 50)}`,
    worst !== undefined && singleLine(`${worst.count} × ${worst.error.code ?? ''} ${worst.error.type}`),
  ];
  return { facts, share: seconds ? elapsed / seconds : all ? sent / all : 0 };
}
