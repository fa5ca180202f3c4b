/** The content of a replay's MLflow run: metrics, and the target and options as parameters. */
import type { RunContent } from '../../mlflow/runs.ts';
import type { Quality } from '../compare/quality.ts';
import type { FinishedReplay } from '../finished.ts';
import { DEFAULT_OPTIONS, type ReplayOptions } from '../options.ts';
import { figures } from '../results/summary.ts';

export const runContentOf = (
  replay: FinishedReplay,
  status: RunContent['status'],
  quality: Quality | undefined,
): RunContent => ({
  endMs: replay.endMs,
  status,
  metrics: metricsOf(replay, quality),
  params: paramsOf(replay.target, replay.options),
});

/** Returns `request_latency_p99`, `request_throughput`, …, and the metrics of the comparison. */
function metricsOf({ results: { stats } }: FinishedReplay, quality?: Quality): Record<string, number> {
  const metrics: Record<string, number> = {};
  for (const [tag, result] of figures(stats)) {
    const single = result.p50 === undefined;
    for (const statistic of single ? ['avg'] : ['avg', 'p50', 'p90', 'p95', 'p99', 'min', 'max']) {
      const value = result[statistic];
      if (typeof value === 'number') metrics[single ? tag : `${tag}_${statistic}`] = value;
    }
  }
  const { failures, succeeded, cancelledOnPurpose } = stats;
  if (cancelledOnPurpose > 0) {
    // Neither failures nor successes, as for the exit code and for thresholds. Only AIPerf's files count them as
    // failed.
    const counted = failures + succeeded;
    metrics.error_request_count = failures;
    metrics.request_error_rate = counted === 0 ? 0 : (100 * failures) / counted;
    metrics.requests_cancelled_on_purpose = cancelledOnPurpose;
  }
  if (quality) {
    const { compared, identical, same, regressed, meanOverlap, status, regressions, judged } = quality;
    Object.assign(metrics, {
      replies_compared: compared,
      replies_identical: identical,
      replies_same: same,
      replies_regressed: regressed,
      replies_newly_failing: status['newly-failing'],
      replies_new_refusals: regressions['new-refusal'],
    });
    if (meanOverlap !== null) metrics.replies_mean_overlap = meanOverlap;
    if (judged) {
      const { errors: _, ...counts } = judged;
      for (const [verdict, count] of Object.entries(counts)) metrics[`judged_${verdict}`] = count;
    }
  }
  return metrics;
}

/** Returns the target and the options that differ from their defaults. */
function paramsOf(target: Record<string, string>, options: ReplayOptions): Record<string, string> {
  const own = Object.entries(options).filter(
    ([key, value]) =>
      value !== undefined && JSON.stringify(value) !== JSON.stringify(DEFAULT_OPTIONS[key as keyof ReplayOptions]),
  );
  return {
    ...Object.fromEntries(Object.entries(target).map(([key, value]) => [`target_${key}`, value])),
    ...Object.fromEntries(own.map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)])),
  };
}
