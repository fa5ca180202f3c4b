/** Computes the figures of a run under AIPerf 0.13's tags: the content of its JSON and CSV summaries. */

import type { FinishedReplay } from '../finished.ts';
import { PERCENTILES } from '../measure/distribution.ts';
import type { RunStats } from '../measure/run-stats.ts';
import { METRIC_NAMES, type SingleMetric } from '../metrics.ts';
import { parseGoodput, type ReplayOptions } from '../options.ts';

/** A metric: a distribution, or a single figure in `avg`. */
export interface MetricResult {
  unit: string;
  avg?: number;
  [statistic: string]: number | string | undefined;
}

/** Seconds from the first request to the last reply; 0 without requests. */
export const durationSeconds = (stats: RunStats): number =>
  stats.completed === 0 ? 0 : Math.max(0, stats.lastEndMs - stats.firstStartMs) / 1000;

/** Computes all figures of a run, by their tags. Leaves out undefined and infinite figures. */
export function figures(stats: RunStats): Map<string, MetricResult> {
  const results = new Map<string, MetricResult>();
  for (const [metric, distribution] of stats.distributions) {
    const summary = distribution.summary();
    // The number of good requests has no percentiles.
    if (!summary || metric === 'good_request_count') continue;
    results.set(metric, { unit: METRIC_NAMES[metric].unit, ...summary });
  }
  for (const [metric, avg] of Object.entries(singleFigures(stats))) {
    if (Number.isFinite(avg)) results.set(metric, { unit: METRIC_NAMES[metric as SingleMetric].unit, avg });
  }
  return results;
}

/** The figures without a distribution. */
function singleFigures(stats: RunStats): Record<SingleMetric, number> {
  const { completed, succeeded, failed, good, withObjectives, distributions } = stats;
  const seconds = durationSeconds(stats);
  const perSecond = (total = Number.NaN): number => (seconds === 0 ? Number.NaN : total / seconds);
  const ifFailed = (value: number): number => (failed > 0 ? value : Number.NaN);
  return {
    request_count: succeeded,
    completed_request_count: completed,
    error_request_count: ifFailed(failed),
    request_error_rate: (100 * failed) / completed,
    benchmark_duration: seconds,
    request_throughput: perSecond(succeeded),
    output_token_throughput: perSecond(distributions.get('output_sequence_length')?.sum),
    good_request_count: withObjectives ? good : Number.NaN,
    goodput: withObjectives ? perSecond(good) : Number.NaN,
    context_overflow_count: ifFailed(stats.contextOverflows),
    osl_mismatch_count: distributions.has('osl_mismatch_diff_pct') ? stats.lengthMismatches : Number.NaN,
    // Little's law: the mean number in flight is the total time in flight divided by the duration.
    effective_concurrency: perSecond(stats.busyMs / 1000),
  };
}

/** Returns the content of `profile_export_aiperf.json`. */
export function summaryJson(replay: FinishedReplay): Record<string, unknown> {
  const { run, results, incomplete, wasCancelled } = replay;
  const { stats } = results;
  return {
    schema_version: '1.4',
    benchmark_id: run,
    ...Object.fromEntries(figures(stats)),
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

/** Returns AIPerf's description of the timing of requests. */
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

// ----------------------------------------------------------------------------------------------------------------- CSV
// Formats `profile_export_aiperf.csv` as AIPerf 0.13 does.

const PERCENTILE_KEYS = PERCENTILES.map((percent) => `p${percent}`);
const STATISTICS = ['avg', 'min', 'max', 'sum', ...PERCENTILE_KEYS, 'std'] as const;

const cell = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const number = (value: number | string | undefined): string => (typeof value === 'number' ? value.toFixed(2) : '');

/** Adds the unit to the name, except for counts. */
const named = (header: string, unit: string): string =>
  unit === 'count' || unit === 'requests' ? header : `${header} (${unit})`;

const hasPercentiles = (result: MetricResult): boolean => PERCENTILE_KEYS.some((key) => result[key] !== undefined);

export function summaryCsv(results: ReadonlyMap<string, MetricResult>): string {
  const all = [...results].sort(([a], [b]) => (a < b ? -1 : 1));
  const name = (tag: string, { unit }: MetricResult): string =>
    cell(named(METRIC_NAMES[tag as keyof typeof METRIC_NAMES].header, unit));
  const rows = [['Metric', ...STATISTICS].join(',')];
  for (const [tag, result] of all) {
    if (!hasPercentiles(result)) continue;
    rows.push([name(tag, result), ...STATISTICS.map((statistic) => number(result[statistic]))].join(','));
  }
  rows.push('', 'Metric,Value');
  for (const [tag, result] of all) {
    if (!hasPercentiles(result)) rows.push(`${name(tag, result)},${number(result.avg)}`);
  }
  return `${rows.join('\n')}\n`;
}
