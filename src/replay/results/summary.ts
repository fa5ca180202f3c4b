/** Computes the figures of a run under AIPerf 0.13's tags: the content of its JSON and CSV summaries. */

import type { FinishedReplay } from '../finished.ts';
import { PERCENTILES } from '../measure/distribution.ts';
import type { RunStats } from '../measure/run-stats.ts';
import metrics from '../metrics.json' with { type: 'json' };
import { DISTRIBUTION_METRICS, type DistributionMetric } from '../metrics.ts';
import { parseGoodput, type ReplayOptions } from '../options.ts';

/** A metric: a distribution, or a single figure in `avg`. */
export interface MetricResult {
  unit: string;
  avg?: number;
  [statistic: string]: number | string | undefined;
}

export interface Figures {
  results: Map<string, MetricResult>;
  /** Names in the CSV, by tag. */
  headers: Map<string, string>;
}

/** Metrics whose percentiles AIPerf also reports with failed requests included, as infinitely slow ones. */
const ADJUSTED = metrics.adjusted as DistributionMetric[];

/** Seconds from the first request to the last reply; 0 without requests. */
export const durationSeconds = (stats: RunStats): number =>
  stats.completed === 0 ? 0 : Math.max(0, stats.lastEndMs - stats.firstStartMs) / 1000;

/** A figure without a distribution; left out if it is undefined or infinite. */
type SingleFigure = [tag: string, header: string, unit: string, value: number | undefined];

/** Computes all figures of a run. */
export function figures(stats: RunStats): Figures {
  const results = new Map<string, MetricResult>();
  const headers = new Map<string, string>();
  for (const [metric, distribution] of stats.distributions) {
    const summary = distribution.summary();
    // The number of good requests has no percentiles.
    if (!summary || metric === 'good_request_count') continue;
    results.set(metric, { unit: DISTRIBUTION_METRICS[metric].unit, ...summary });
    headers.set(metric, DISTRIBUTION_METRICS[metric].header);
  }
  for (const [tag, header, unit, value] of singleFigures(stats)) {
    if (value === undefined || !Number.isFinite(value)) continue;
    results.set(tag, { unit, avg: value });
    headers.set(tag, header);
  }
  if (stats.failed > 0) addAdjusted(stats, results, headers);
  return { results, headers };
}

function singleFigures(stats: RunStats): SingleFigure[] {
  const seconds = durationSeconds(stats);
  const perSecond = (total: number | undefined): number | undefined =>
    total === undefined || seconds === 0 ? undefined : total / seconds;
  const sum = (metric: DistributionMetric): number | undefined => stats.distributions.get(metric)?.sum;
  const [input, output] = [sum('input_sequence_length'), sum('output_sequence_length')];
  const tokens = input === undefined && output === undefined ? undefined : (input ?? 0) + (output ?? 0);
  const { completed, failed, good } = stats;
  const ifFailed = (value: number): number | undefined => (failed > 0 ? value : undefined);
  const ifGoodput = (value: number): number | undefined => (stats.withObjectives ? value : undefined);
  const mismatches = stats.distributions.has('osl_mismatch_diff_pct') ? stats.lengthMismatches : undefined;
  // Little's law: the mean number in flight is the total time in flight divided by the duration.
  const concurrency = perSecond(stats.busyMs / 1000);
  return [
    ['request_count', 'Request Count', 'requests', stats.succeeded],
    ['completed_request_count', 'Completed Requests (Success + Error)', 'requests', completed],
    ['error_request_count', 'Error Request Count', 'requests', ifFailed(failed)],
    ['request_error_rate', 'Request Error Rate', '%', completed > 0 ? (100 * failed) / completed : undefined],
    ['benchmark_duration', 'Benchmark Duration', 'sec', seconds],
    ['request_throughput', 'Request Throughput', 'requests/sec', perSecond(stats.succeeded)],
    ['total_isl', 'Total Input Sequence Length', 'tokens', input],
    ['total_osl', 'Total Output Sequence Length', 'tokens', output],
    ['total_output_tokens', 'Total Output Tokens', 'tokens', sum('output_token_count')],
    ['total_reasoning_tokens', 'Total Reasoning Tokens', 'tokens', sum('reasoning_token_count')],
    ['output_token_throughput', 'Output Token Throughput', 'tokens/sec', perSecond(output)],
    ['input_token_throughput', 'Input Token Throughput', 'tokens/sec', perSecond(input)],
    ['total_token_throughput', 'Total Token Throughput', 'tokens/sec', perSecond(tokens)],
    ['total_error_isl', 'Total Error Input Sequence Length', 'tokens', sum('error_isl')],
    ['total_usage_prompt_tokens', 'Total Usage Prompt Tokens', 'tokens', sum('usage_prompt_tokens')],
    ['total_usage_completion_tokens', 'Total Usage Completion Tokens', 'tokens', sum('usage_completion_tokens')],
    ['total_usage_total_tokens', 'Total Usage Total Tokens', 'tokens', sum('usage_total_tokens')],
    ['total_usage_reasoning_tokens', 'Total Usage Reasoning Tokens', 'tokens', sum('usage_reasoning_tokens')],
    ['good_request_count', 'Good Request Count', 'requests', ifGoodput(good)],
    ['goodput', 'Goodput', 'requests/sec', ifGoodput(perSecond(good) ?? Number.NaN)],
    ['good_request_fraction', 'GoodRequestFraction', 'ratio', ifGoodput(good / Math.max(1, completed))],
    ['context_overflow_count', 'Context Overflow Count', 'requests', ifFailed(stats.contextOverflows)],
    ['osl_mismatch_count', 'OSL Mismatch Count', 'requests', mismatches],
    ['effective_concurrency', 'Effective Concurrency', 'requests', concurrency],
  ];
}

function addAdjusted(stats: RunStats, results: Map<string, MetricResult>, headers: Map<string, string>): void {
  for (const metric of ADJUSTED) {
    const distribution = stats.distributions.get(metric);
    if (!distribution) continue;
    const { unit, header } = DISTRIBUTION_METRICS[metric];
    const result: MetricResult = { unit, min: distribution.min, count: stats.completed };
    for (const percent of PERCENTILES) {
      const value = distribution.percentileWithFailed(percent, stats.failed);
      if (value !== undefined) result[`p${percent}`] = value;
    }
    results.set(`adj_${metric}`, result);
    headers.set(`adj_${metric}`, `${header} (error-adjusted)`);
  }
}

/** Returns the content of `profile_export_aiperf.json`. */
export function summaryJson(replay: FinishedReplay): Record<string, unknown> {
  const { run, results, incomplete, wasCancelled } = replay;
  const { stats } = results;
  return {
    schema_version: '1.4',
    benchmark_id: run,
    ...Object.fromEntries(figures(stats).results),
    input_config: inputConfigOf(replay),
    run_info: { benchmark_id: run },
    was_cancelled: wasCancelled,
    is_complete: incomplete === undefined && !wasCancelled,
    ...(incomplete ? { incomplete_reason: incomplete } : {}),
    error_summary: stats.errorsByCount.map(({ error, count }) => ({ error_details: error, count })),
    start_time: new Date(replay.startMs).toISOString(),
    end_time: new Date(replay.endMs).toISOString(),
  };
}

// --------------------------------------------------------------------------------------------------------- options
// As AIPerf 0.13 names them: `input_config` of the summary, which its models read.

/** The name of the model if the captured bodies keep their own. */
const CAPTURED_MODEL = 'captured';

/** How AIPerf names the way in which requests are timed. */
function timing(options: ReplayOptions, sent: number): Record<string, unknown> {
  const { requestRate: rate, concurrency, fixedScheduleStartOffset, fixedScheduleEndOffset, requestCount } = options;
  const requests = requestCount ?? Math.max(1, sent);
  if (rate !== undefined) return { type: 'constant', rate, concurrency, requests };
  if (concurrency !== undefined) return { type: 'concurrency', concurrency, requests };
  return {
    type: 'fixed_schedule',
    auto_offset: options.fixedScheduleAutoOffset,
    start_offset: fixedScheduleStartOffset && Math.round(fixedScheduleStartOffset),
    end_offset: fixedScheduleEndOffset && Math.round(fixedScheduleEndOffset),
    requests: requestCount,
  };
}

function inputConfigOf({ options, source, target, sent }: FinishedReplay): Record<string, unknown> {
  const {
    requestCancellationRate: rate,
    requestCancellationDelay: delay,
    warmup,
    randomSeed,
    model = CAPTURED_MODEL,
  } = options;
  const slos = Object.fromEntries(parseGoodput(options.goodput));
  const profiling = { name: 'profiling', kind: 'profiling', ...timing(options, sent) };
  const warming = { name: 'warmup', kind: 'warmup', type: 'concurrency', concurrency: 8, requests: warmup };
  return {
    models: { items: [{ name: model }] },
    endpoint: {
      urls: [target.url ?? `https://sagemaker/${target.endpoint}`],
      type: 'chat',
      timeout: options.timeout,
      ...(options.stream ? { streaming: true } : {}),
    },
    datasets: [{ name: 'main', type: 'file', path: source, format: 'sagemaker_data_capture', random_seed: randomSeed }],
    phases: [...(warmup > 0 ? [warming] : []), rate > 0 ? { ...profiling, cancellation: { rate, delay } } : profiling],
    ...(Object.keys(slos).length > 0 ? { slos } : {}),
  };
}
