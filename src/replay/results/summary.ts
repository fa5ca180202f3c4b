/** The run's figures by AIPerf 0.13's tags: the content of its summary in JSON and in CSV, and of each time slice. */
import { PERCENTILES } from '../measure/distribution.ts';
import { DISTRIBUTION_METRICS, type DistributionMetric } from '../measure/metrics.ts';
import type { RunStats } from '../measure/run-stats.ts';

/** One metric: a distribution, or a single figure in `avg`. */
export interface MetricResult {
  unit: string;
  avg?: number;
  [statistic: string]: number | string | undefined;
}

export interface Figures {
  results: Map<string, MetricResult>;
  /** Names for the CSV. */
  headers: Map<string, string>;
}

/** AIPerf calls a replay degraded when this part of its requests went out later than this. */
const DEGRADED_LAG_PERCENTILE = 99;
const DEGRADED_LAG_MS = 500;

/** Metrics of which AIPerf gives percentiles over failed requests too, those taken as infinitely slow. */
const ADJUSTED: readonly DistributionMetric[] = [
  'time_to_first_token',
  'request_latency',
  'decode_duration',
  'inter_token_latency',
];

interface FigureOptions {
  /** Length of the window that rates are taken over, seconds; default: from the first request to the last reply. */
  windowSeconds?: number;
  /** The requests had scheduled moments. */
  scheduled: boolean;
  /** A time slice: no figures of the schedule, which are those of the whole run. */
  slice?: boolean;
}

/** Seconds from the first request to the last reply; 0 when there was none. */
export const durationSeconds = (stats: RunStats): number =>
  stats.completed === 0 ? 0 : Math.max(0, stats.lastEndMs - stats.firstStartMs) / 1000;

/** All figures of a run or a slice. */
export function figures(stats: RunStats, options: FigureOptions): Figures {
  const results = new Map<string, MetricResult>();
  const headers = new Map<string, string>();
  const seconds = options.windowSeconds ?? durationSeconds(stats);
  const single = (tag: string, header: string, unit: string, value: number | undefined): void => {
    if (value === undefined || !Number.isFinite(value)) return;
    results.set(tag, { unit, avg: value });
    headers.set(tag, header);
  };
  const perSecond = (tag: string, header: string, unit: string, total: number | undefined): void =>
    single(tag, header, unit, total === undefined || seconds === 0 ? undefined : total / seconds);
  const sum = (metric: DistributionMetric): number | undefined => stats.distributions.get(metric)?.sum;

  for (const [metric, distribution] of stats.distributions) {
    const summary = distribution.summary();
    // A count of good requests has no percentiles.
    if (!summary || metric === 'good_request_count') continue;
    if (options.slice && (metric === 'credit_to_start_latency' || metric === 'replay_client_lag')) continue;
    results.set(metric, { unit: DISTRIBUTION_METRICS[metric].unit, ...summary });
    headers.set(metric, DISTRIBUTION_METRICS[metric].header);
  }

  const input = sum('input_sequence_length');
  const output = sum('output_sequence_length');
  single('request_count', 'Request Count', 'requests', stats.succeeded);
  single('completed_request_count', 'Completed Requests (Success + Error)', 'requests', stats.completed);
  if (stats.failed > 0) single('error_request_count', 'Error Request Count', 'requests', stats.failed);
  if (stats.completed > 0) {
    single('request_error_rate', 'Request Error Rate', '%', (100 * stats.failed) / stats.completed);
  }
  single('benchmark_duration', 'Benchmark Duration', 'sec', seconds);
  perSecond('request_throughput', 'Request Throughput', 'requests/sec', stats.succeeded);
  single('total_isl', 'Total Input Sequence Length', 'tokens', input);
  single('total_osl', 'Total Output Sequence Length', 'tokens', output);
  single('total_output_tokens', 'Total Output Tokens', 'tokens', sum('output_token_count'));
  single('total_reasoning_tokens', 'Total Reasoning Tokens', 'tokens', sum('reasoning_token_count'));
  perSecond('output_token_throughput', 'Output Token Throughput', 'tokens/sec', output);
  perSecond('input_token_throughput', 'Input Token Throughput', 'tokens/sec', input);
  if (input !== undefined || output !== undefined) {
    perSecond('total_token_throughput', 'Total Token Throughput', 'tokens/sec', (input ?? 0) + (output ?? 0));
  }
  single('total_error_isl', 'Total Error Input Sequence Length', 'tokens', sum('error_isl'));
  single('total_usage_prompt_tokens', 'Total Usage Prompt Tokens', 'tokens', sum('usage_prompt_tokens'));
  single('total_usage_completion_tokens', 'Total Usage Completion Tokens', 'tokens', sum('usage_completion_tokens'));
  single('total_usage_total_tokens', 'Total Usage Total Tokens', 'tokens', sum('usage_total_tokens'));
  single('total_usage_reasoning_tokens', 'Total Usage Reasoning Tokens', 'tokens', sum('usage_reasoning_tokens'));
  if (stats.withObjectives) {
    single('good_request_count', 'Good Request Count', 'requests', stats.good);
    perSecond('goodput', 'Goodput', 'requests/sec', stats.good);
    single('good_request_fraction', 'GoodRequestFraction', 'ratio', stats.good / Math.max(1, stats.completed));
  }
  if (stats.failed > 0) single('context_overflow_count', 'Context Overflow Count', 'requests', stats.contextOverflows);
  if (stats.distributions.has('osl_mismatch_diff_pct')) {
    single('osl_mismatch_count', 'OSL Mismatch Count', 'requests', stats.lengthMismatches);
  }
  // Little's law: the mean number under way is the time spent under way over the time. Requests of one slice go on in the next.
  if (!options.slice) perSecond('effective_concurrency', 'Effective Concurrency', 'requests', stats.busyMs / 1000);
  if (stats.failed > 0) addAdjusted(stats, results, headers);
  if (options.scheduled && !options.slice) addSchedule(stats, single);
  return { results, headers };
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

function addSchedule(
  stats: RunStats,
  single: (tag: string, header: string, unit: string, value: number | undefined) => void,
): void {
  const lag = stats.distributions.get('credit_to_start_latency');
  if (!lag) return;
  for (const percent of [50, 90, 99]) {
    single(`replay_sched_lag_p${percent}`, `Replay Schedule Lag p${percent}`, 'ms', lag.percentile(percent));
  }
  const degraded = lag.percentile(DEGRADED_LAG_PERCENTILE) > DEGRADED_LAG_MS ? 1 : 0;
  single('replay_sched_degraded', 'Replay Schedule Degraded', 'count', degraded);
}

export interface SummaryFacts {
  run: string;
  scheduled: boolean;
  startMs: number;
  endMs: number;
  wasCancelled: boolean;
  isComplete: boolean;
  /** Why it is not complete, in words. */
  incompleteReason?: string;
  /** Of the warm-up's requests, when there were any. */
  warmup?: RunStats;
}

/** Content of `profile_export_aiperf.json`. */
export function summaryJson(stats: RunStats, facts: SummaryFacts): Record<string, unknown> {
  const { results } = figures(stats, facts);
  const warmup = facts.warmup && figures(facts.warmup, { scheduled: false, slice: true }).results;
  return {
    schema_version: '1.4',
    benchmark_id: facts.run,
    ...Object.fromEntries(results),
    run_info: { benchmark_id: facts.run },
    was_cancelled: facts.wasCancelled,
    is_complete: facts.isComplete,
    ...(facts.incompleteReason ? { incomplete_reason: facts.incompleteReason } : {}),
    error_summary: [...stats.errors.values()]
      .sort((a, b) => b.count - a.count)
      .map(({ error, count }) => ({ error_details: error, count })),
    start_time: new Date(facts.startMs).toISOString(),
    end_time: new Date(facts.endMs).toISOString(),
    ...(warmup ? { warmup_metrics: Object.fromEntries(warmup) } : {}),
  };
}
