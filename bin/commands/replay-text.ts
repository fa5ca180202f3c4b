/** Formats the output of the replay command: the plan of a dry run, the progress, and the figures at the end. */
import { durationText, singleLine } from '../../src/core/text/terminal-text.ts';
import type { DryRun } from '../../src/replay/dry-run.ts';
import type { DistributionMetric } from '../../src/replay/measure/metrics.ts';
import type { RunStats } from '../../src/replay/measure/run-stats.ts';
import { durationSeconds } from '../../src/replay/results/summary.ts';
import type { SendProgress } from '../../src/replay/send/job.ts';
import { CAPTURE_FILES } from '../../src/replay/source/open-source.ts';
import { type ReplayResult, unsentWarning } from '../../src/replay/to-directory.ts';
import { shareBar } from '../cli/progress.ts';

const TERMINAL_MS = 500;
const PLAIN_MS = 5_000;
const BAR = 30;

interface DisplayOptions {
  out: NodeJS.WriteStream;
  progress: SendProgress;
  stats: RunStats;
  /** Total number of requests, as far as it is known. */
  total(): number;
  /** Length of the schedule in seconds, if there is one. */
  seconds: number | undefined;
}

const ms = (value: number | undefined): string =>
  value === undefined ? '–' : `${value.toFixed(value < 10 ? 1 : 0)} ms`;

/** Formats a duration as `00:05`, from one hour on as `02:36:00`, and from one day on as `274 d 08:30:00`. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [days, hours] = [Math.floor(whole / 86_400), Math.floor(whole / 3_600) % 24];
  const parts = [...(whole < 3_600 ? [] : [hours]), Math.floor(whole / 60) % 60, whole % 60];
  return `${days > 0 ? `${days} d ` : ''}${parts.map((part) => String(part).padStart(2, '0')).join(':')}`;
}

/** Displays the progress: a few lines that are redrawn on a terminal, or plain lines elsewhere. */
export class ReplayDisplay {
  readonly #options: DisplayOptions;
  readonly #terminal: boolean;
  readonly #timer: NodeJS.Timeout;
  #drawn = 0;
  #lastSent = 0;
  #lastAt: number;

  constructor(options: DisplayOptions) {
    this.#options = options;
    this.#terminal = options.out.isTTY === true;
    this.#lastAt = options.progress.startAt;
    this.#timer = setInterval(() => this.#draw(), this.#terminal ? TERMINAL_MS : PLAIN_MS);
    this.#timer.unref();
  }

  /** Stops the display and removes its lines from a terminal. */
  stop(): void {
    clearInterval(this.#timer);
    if (this.#terminal) this.#clear();
  }

  #figures() {
    const { progress, stats } = this.#options;
    const now = performance.now();
    const sent = progress.sent();
    const rate = ((sent - this.#lastSent) * 1000) / Math.max(1, now - this.#lastAt);
    this.#lastSent = sent;
    this.#lastAt = now;
    const at = (metric: DistributionMetric, percent: number): number | undefined =>
      stats.distributions.get(metric)?.percentile(percent);
    return { elapsed: (now - progress.startAt) / 1000, sent, rate, inFlight: progress.inFlight(), at };
  }

  #draw(): void {
    const { out, stats, seconds } = this.#options;
    const total = this.#options.total();
    const { elapsed, sent, rate, inFlight, at } = this.#figures();
    const { succeeded, failed, cancelled } = stats;
    const counts = `sent ${sent}${total ? `/${total}` : ''}, ok ${succeeded}, failed ${failed}${cancelled ? ` (cancelled ${cancelled})` : ''}`;
    const latency = `latency p50 ${ms(at('request_latency', 50))}, p95 ${ms(at('request_latency', 95))}, p99 ${ms(at('request_latency', 99))}`;
    if (!this.#terminal) {
      out.write(
        `${clock(elapsed)} ${counts}, ${rate.toFixed(1)}/s, in flight ${inFlight}, ${latency}, lag p99 ${ms(at('credit_to_start_latency', 99))}\n`,
      );
      return;
    }
    const share = seconds ? elapsed / seconds : total ? sent / total : 0;
    const lines = [
      `${shareBar(share, BAR)} ${clock(elapsed)}${seconds ? ` / ${clock(seconds)}` : ''}  ${rate.toFixed(1)} requests/s  ${inFlight} in flight`,
      counts,
      `${latency}, from the scheduled time p99 ${ms(at('effective_latency', 99))}`,
      `schedule lag p50 ${ms(at('credit_to_start_latency', 50))}, p99 ${ms(at('credit_to_start_latency', 99))}`,
    ];
    const first = at('time_to_first_token', 50);
    if (first !== undefined)
      lines.push(`time to first token p50 ${ms(first)}, p99 ${ms(at('time_to_first_token', 99))}`);
    const worst = stats.errorsByCount.slice(0, 3);
    for (const { error, count } of worst)
      lines.push(singleLine(`${count} × ${error.code ?? ''} ${error.type}: ${error.message.slice(0, 80)}`));
    this.#clear();
    const width = out.columns ?? 80;
    // A wrapped line would occupy two rows, and would not be removed completely.
    out.write(lines.map((line) => `${line.replace(/\s+/g, ' ').slice(0, width - 1)}\n`).join(''));
    this.#drawn = lines.length;
  }

  #clear(): void {
    if (this.#drawn > 0) this.#options.out.write(`\x1b[${this.#drawn}A\x1b[J`);
    this.#drawn = 0;
  }
}

const LEVELS = '▁▂▃▄▅▆▇█';

const thousands = (value: number): string => Math.round(value).toLocaleString('en-US');

function sparkline(counts: readonly number[]): string {
  const most = Math.max(...counts, 1);
  return counts.map((count) => (count === 0 ? ' ' : LEVELS[Math.ceil((count / most) * LEVELS.length) - 1])).join('');
}

const skippedLines = (skipped: ReadonlyMap<string, number>): string[] =>
  [...skipped].map(([reason, count]) => `  ${reason}: ${count}`);

const total = (skipped: ReadonlyMap<string, number>): number =>
  [...skipped.values()].reduce((sum, count) => sum + count, 0);

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

export function dryRunText(plan: DryRun, skipped: ReadonlyMap<string, number>): string {
  const estimated = (tokens: { total: number; captured: number }): string => {
    const share = tokens.total === 0 ? 0 : Math.round((100 * tokens.captured) / tokens.total);
    return `${thousands(tokens.total)} (${share}% counted by the captured endpoint, the rest estimated)`;
  };
  const types = Object.entries(plan.contentTypes).map(([type, count]) => `  ${type}: ${count}`);
  return [
    `requests: ${plan.requests}`,
    `streaming: ${plan.streaming}`,
    `duration: ${durationText(plan.seconds)}`,
    ...(longWarning(plan.seconds) === undefined ? [] : [`  ${longWarning(plan.seconds)}`]),
    `requests per second: mean ${plan.meanPerSecond.toFixed(2)}, peak ${plan.peakPerSecond}`,
    ...(plan.shape.length > 1 ? [`shape: |${sparkline(plan.shape)}|`] : []),
    `bytes: ${thousands(plan.bodyBytes)}`,
    `input tokens: ${estimated(plan.inputTokens)}`,
    `output tokens: ${estimated(plan.outputTokens)}`,
    'content types:',
    ...types,
    `skipped: ${total(skipped)}`,
    ...skippedLines(skipped),
    plan.requests === 0 ? `Nothing can be sent: ${nothingToSend(skipped)}` : 'Nothing was sent.',
  ].join('\n');
}

const ROWS: readonly [DistributionMetric, string][] = [
  ['request_latency', 'latency from sending'],
  ['effective_latency', 'latency from schedule'],
  ['credit_to_start_latency', 'schedule lag'],
  ['time_to_first_token', 'time to first token'],
  ['inter_token_latency', 'inter-token latency'],
];

export function resultText(result: ReplayResult, directory: string): string {
  const { stats, skippedReasons } = result.results;
  const seconds = durationSeconds(stats);
  const perSecond = (value: number): string => (seconds === 0 ? '0' : (value / seconds).toFixed(2));
  const lines = [
    `sent: ${result.outcome.sent}`,
    `succeeded: ${stats.succeeded}`,
    `failed: ${stats.failed}`,
    `cancelled: ${stats.cancelled}`,
    `skipped: ${total(skippedReasons)}`,
    ...skippedLines(skippedReasons),
    `duration: ${seconds < 60 ? `${seconds.toFixed(2)} s` : durationText(seconds)}`,
    `requests per second: ${perSecond(stats.succeeded)}`,
  ];
  if (result.outcome.unsent > 0) lines.push(`unsent: ${result.outcome.unsent}`);
  const output = stats.distributions.get('output_sequence_length')?.sum;
  if (output !== undefined) lines.push(`output tokens per second: ${perSecond(output)}`);
  if (stats.withObjectives) lines.push(`good requests: ${stats.good} of ${stats.completed}`);
  lines.push(
    '',
    `${'ms'.padEnd(24)}${['mean', 'p50', 'p90', 'p95', 'p99', 'max'].map((name) => name.padStart(10)).join('')}`,
  );
  for (const [metric, name] of ROWS) {
    const summary = stats.distributions.get(metric)?.summary();
    if (!summary) continue;
    const { avg, p50, p90, p95, p99, max } = summary;
    lines.push(name.padEnd(24) + [avg, p50, p90, p95, p99, max].map((value) => value.toFixed(2).padStart(10)).join(''));
  }
  if (stats.errors.size > 0) {
    lines.push('', 'errors:');
    for (const { error, count } of stats.errorsByCount.slice(0, 10)) {
      lines.push(
        `  ${count} × ${error.code ?? ''} ${singleLine(error.type)}: ${singleLine(error.message).slice(0, 120)}`.replace(
          / {2,}/g,
          ' ',
        ),
      );
    }
  }
  if (result.bottleneck) lines.push('', `The client was the bottleneck: ${result.bottleneck}.`);
  if (result.outcome.sent === 0) lines.push('', `Nothing was sent: ${nothingToSend(skippedReasons)}`);
  const unsent = unsentWarning(result);
  if (unsent !== undefined) lines.push('', singleLine(unsent));
  if (result.wasCancelled) lines.push('', 'The replay was stopped. The results until then have been written.');
  lines.push('', `results: ${directory}`);
  return lines.join('\n');
}
