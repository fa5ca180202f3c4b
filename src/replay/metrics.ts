/** The metrics of a request, with AIPerf 0.13's tags, units and names, so that its tools accept our files. */
import metrics from './metrics.json' with { type: 'json' };

export interface MetricDefinition {
  unit: string;
  /** The name in the CSV, without the unit. */
  header: string;
  /** Values are multiplied by this, since histograms count whole numbers. 1,000 turns milliseconds into microseconds. */
  scale: number;
  largerIsBetter?: boolean;
  /** The lowest value if it is below 0. Histograms count from there. */
  lowest?: number;
}

/**
 * Metrics of single answered requests, in the order of a record's line. `osl_mismatch_diff_pct` is the difference between the reply's
 * length and the request's limit: -100% is an empty reply.
 */
export const REQUEST_METRICS = metrics.request;

export type RequestMetric = keyof typeof REQUEST_METRICS;

/**
 * The metrics of a record, and distributions over the whole run: gaps, failures and the schedule. AIPerf lacks two of
 * them: `replay_client_lag`, the lag that the client causes apart from waiting for the concurrency cap, and
 * `captured_…`, the capture client's measurements of the same requests. No threshold can refer to these.
 */
export const DISTRIBUTION_METRICS: Record<DistributionMetric, MetricDefinition> = {
  ...metrics.request,
  ...metrics.run,
};

export type DistributionMetric = RequestMetric | keyof typeof metrics.run;

export type SingleMetric = keyof typeof metrics.single;

/** Names of all metrics in the files of a run, including metrics that are single figures. */
export const METRIC_NAMES = { ...metrics.request, ...metrics.run, ...metrics.single };

/** The rows of the table of figures in order, with the names that people read. */
export const REPORT_METRICS = Object.entries(metrics.report) as [DistributionMetric, string][];

export const isRequestMetric = (tag: string): tag is RequestMetric => Object.hasOwn(REQUEST_METRICS, tag);
