/**
 * The output of the replay command: the plan of a dry run, the progress, and the figures at the end, as text and as
 * JSON.
 */
import { whole } from '../../src/core/text/figure-text.ts';
import { block, exact, facts, type Page } from '../../src/core/text/page.ts';
import { shellWord } from '../../src/core/text/shell-word.ts';
import { durationText, singleLine } from '../../src/core/text/terminal-text.ts';
import { sparkline } from '../../src/quality/rates-text.ts';
import { isByCapturedTimes } from '../../src/replay/derived-options.ts';
import type { DryRun } from '../../src/replay/dry-run.ts';
import { bottleneckOf } from '../../src/replay/finished.ts';
import type { FollowedUp } from '../../src/replay/follow-ups.ts';
import type { RunStats } from '../../src/replay/measure/run-stats.ts';
import type { DistributionMetric } from '../../src/replay/metrics.ts';
import type { Published } from '../../src/replay/publish/publish.ts';
import { mlflowRemarks } from '../../src/replay/publish/write-traces.ts';
import { figuresPage, qualityPart, skippedPage } from '../../src/replay/report/replay-parts.ts';
import { shownUrl } from '../../src/replay/request/target.ts';
import { durationSeconds } from '../../src/replay/results/summary.ts';
import type { SendProgress } from '../../src/replay/send/job.ts';
import { CAPTURE_FILES } from '../../src/replay/source/open-source.ts';
import { type ReplayResult, unsentWarning } from '../../src/replay/to-directory.ts';
import { print, progress } from '../cli/output.ts';
import type { Facts } from '../cli/progress.ts';
import type { ReplayFlags } from './replay-options.ts';

const NO_CAPTURES = ['NotJson', 'NotACaptureRecord'];

/** Explains why no request can be sent, and the expected input. */
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

export function dryRunPage(plan: DryRun, skipped: ReadonlyMap<string, number>): Page {
  const { requests, streaming, seconds, meanPerSecond, peakPerSecond, shape, bodyBytes, contentTypes } = plan;
  const estimated = (tokens: { total: number; captured: number }): string => {
    const share = tokens.total === 0 ? 0 : Math.round((100 * tokens.captured) / tokens.total);
    return `${whole(tokens.total)} (${share}% counted by the captured endpoint, the rest estimated)`;
  };
  return [
    facts({ requests, streaming, duration: durationText(seconds) }),
    [longWarning(seconds)],
    facts({
      'requests per second': `mean ${meanPerSecond.toFixed(2)}, peak ${peakPerSecond}`,
      shape: shape.length > 1 && sparkline(shape.map((count) => count || null)),
      bytes: whole(bodyBytes),
      'input tokens': estimated(plan.inputTokens),
      'output tokens': estimated(plan.outputTokens),
    }),
    'content types:',
    [facts(contentTypes)],
    ...skippedPage(skipped),
    requests === 0 ? `Nothing can be sent: ${nothingToSend(skipped)}` : 'Nothing was sent.',
  ];
}

// -------------------------------------------------------------------------------------------------------- figures

/**
 * Prints the measurements as text or JSON. @param followed results of later steps; empty if the result files could not
 * be written
 */
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
  const { rest, options, wasCancelled, sent, results } = result;
  const { comparison, published } = followed;
  const bottleneck = bottleneckOf(result);
  const { again = 0, pass = 0 } = rest ?? {};
  const laterPasses = rest ? options.repeat - pass - 1 : 0;
  const remarks = [
    bottleneck && `The client was the bottleneck: ${bottleneck}.`,
    sent === 0 && `Nothing was sent: ${nothingToSend(results.skippedReasons)}`,
    unsentWarning(result),
    wasCancelled && 'The replay was stopped. The results until then have been written.',
    place.restCommand && exact(`To send the rest: ${place.restCommand}`),
    again > 0 && `It sends ${again} requests again, which have the time of its first one.`,
    laterPasses > 0 &&
      `After it come ${laterPasses} more passes: the command of this run, with --repeat ${laterPasses}.`,
    `results: ${place.directory}${place.report === undefined ? '' : `; to read: ${place.report}`}`,
  ];
  return [
    ...(published ? publishedPage(place.experiment, published) : []),
    ...figuresPage(result),
    comparison && qualityPart(comparison.quality, comparison.judgeUsd),
    ...remarks.map((remark) => block(remark)),
  ];
}

const publishedPage = (experiment: string, published: Published): Page => [
  facts({
    'MLflow run': `${published.runId} in experiment ${experiment}`,
    'MLflow traces': published.traces,
    'MLflow assessments': published.assessments?.written,
  }),
  ...mlflowRemarks(published),
  ...published.leftOut.map((file) => `not uploaded to MLflow: ${file}`),
];

interface ReplayPlace {
  directory: string;
  /** Path of the HTML report, if it was written. */
  report?: string | undefined;
  /** The experiment in MLflow; empty without MLflow. */
  experiment: string;
  /** Sends the rest of the schedule. */
  restCommand?: string | undefined;
}

/** The output with `--json`. */
export type ReplayOutput = ReturnType<typeof replayAsJson>;

function replayAsJson(result: ReplayResult, followed: Partial<FollowedUp>, place: ReplayPlace) {
  const { directory, experiment, restCommand } = place;
  const { stats, skippedReasons } = result.results;
  const { comparison, published, failures = [] } = followed;
  return {
    run: result.run,
    /** Directory of the result files. */
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
    /** Whether Ctrl-C stopped it. */
    stopped: result.wasCancelled,
    /** Set with `--goodput`. */
    goodRequests: stats.withObjectives ? stats.good : undefined,
    /** Reason why the measurements may show the client's speed instead of the target's. */
    bottleneck: bottleneckOf(result),
    /** AIPerf's metrics, in ms and tokens. */
    metrics: Object.fromEntries(
      [...stats.distributions].flatMap(([metric, distribution]) => {
        const summary = distribution.summary();
        return summary ? [[metric, summary]] : [];
      }),
    ),
    errors: stats.errorsByCount.map(({ error: { code, type, message }, count }) => ({ code, type, message, count })),
    /** Set with `--compare`. */
    comparison,
    mlflow: published && { runId: published.runId, experiment, traces: published.traces, refused: published.refused },
    /** Failures of the steps after the replay. */
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
  /** Total number of requests, as far as known. */
  total(): number;
  /** Length of the schedule in seconds, if there is one. */
  seconds: number | undefined;
}

/** Shows how far a replay is, on standard error. @returns ends it */
export function showReplay(shown: Shown): () => void {
  const timer = setInterval(() => progress.show(replayFacts(shown)), DRAW_MS).unref();
  return () => {
    clearInterval(timer);
    progress.end();
  };
}

function replayFacts({ progress, stats, total, seconds }: Shown): Facts {
  const elapsed = (performance.now() - progress.startAt) / 1000;
  const [sent, all] = [progress.sent(), total()];
  const at = (metric: DistributionMetric, percentile: number) =>
    ms(stats.distributions.get(metric)?.percentile(percentile));
  const { succeeded, failed, cancelled, errorsByCount } = stats;
  const [worst] = errorsByCount;
  const facts = [
    `${durationText(elapsed)}${seconds ? ` / ${durationText(seconds)}` : ''} sent ${sent}${all ? `/${all}` : ''}`,
    `ok ${succeeded}`,
    `failed ${failed}${cancelled ? ` (cancelled ${cancelled})` : ''}`,
    `latency p50 ${at('request_latency', 50)}`,
    `p99 ${at('request_latency', 99)}`,
    `in flight ${progress.inFlight()}`,
    `${(sent / Math.max(elapsed, 0.001)).toFixed(1)}/s`,
    `effective latency p99 ${at('effective_latency', 99)}`,
    worst !== undefined && singleLine(`${worst.count} × ${worst.error.code ?? ''} ${worst.error.type}`),
  ];
  return { facts, share: seconds ? elapsed / seconds : all ? sent / all : 0 };
}

const iso = (ms: number | null): string => new Date(ms ?? 0).toISOString();

/** Hides the values of headers, and secrets in a URL. */
function shown(word: string, index: number, words: readonly string[]): string {
  if (words[index - 1] === '--header' || word.startsWith('--header=')) return word.replace(/:.*/s, ': …');
  return /^(?:--url=)?https?:/i.test(word) ? shownUrl(word) : word;
}

/**
 * Returns the command with a folder of its own: the words of this command, and further options. Of repeated options the
 * last one counts.
 *
 * @param words the arguments of this process
 * @returns `undefined` if everything was sent
 */
export function restCommand(
  words: readonly string[],
  { out, from, to, repeat, requestCount, ...flags }: ReplayFlags,
  { rest, options, captures, sent, run }: ReplayResult,
): string | undefined {
  if (rest === undefined) return undefined;
  const { firstMs, lastMs } = captures;
  const offset = ['--fixed-schedule-start-offset', rest.timeMs - (firstMs ?? 0)];
  const more = [
    ...(isByCapturedTimes(options)
      ? [...offset, ...(from ? ['--from', iso(firstMs)] : [])]
      : ['--from', iso(rest.timeMs)]),
    // An age counts from another time then.
    ...(to ? ['--to', iso((lastMs ?? 0) + 1)] : []),
    // The passes after it are whole.
    ...(repeat > 1 ? ['--repeat', 1] : []),
    ...(requestCount ? ['--request-count', requestCount - sent + rest.again] : []),
    ...(flags.run ? ['--run', `${run}-rest`] : []),
    ...(out ? ['--out', `${out}-rest`] : []),
  ];
  const kept = words.filter((word) => word !== '--fixed-schedule-auto-offset').map(shown);
  return ['inference-monitor', ...kept, ...more].map((word) => shellWord(String(word))).join(' ');
}
