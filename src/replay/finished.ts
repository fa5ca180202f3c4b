/** A replay that has ended, on the command line or in the cloud, and whether the client limited it. */

import type { Experiment } from '../mlflow/types.ts';
import { isScheduled } from './derived-options.ts';
import { isOwnFailure } from './http/connection.ts';
import type { ReportCollector } from './measure/report-collector.ts';
import type { RunStats } from './measure/run-stats.ts';
import type { ReplayOptions } from './options.ts';
import type { SendOutcome } from './send/job.ts';
import type { SortedIndex } from './source/sorted-index.ts';
import type { SourceFile } from './source/types.ts';

/** The measurements of one process, or of several merged. */
export interface MeasuredRun {
  stats: RunStats;
  report: ReportCollector;
  skippedReasons: ReadonlyMap<string, number>;
}

export interface FinishedReplay extends Pick<SendOutcome, 'sent' | 'unsent' | 'maxConnections'> {
  run: string;
  /** Description of the target, without secrets. */
  target: Record<string, string>;
  options: ReplayOptions;
  /** Location of the captures, as the user gave it. */
  source: string;
  captures: { files: number; records: number; firstMs: number | null; lastMs: number | null };
  results: MeasuredRun;
  /** Epoch milliseconds. */
  startMs: number;
  endMs: number;
  wasCancelled: boolean;
  /** Reason why a part of the schedule was not sent. */
  incomplete: string | undefined;
}

/** Explains why the client, rather than the target, limited the replay; `undefined` if it did not. */
export const bottleneckOf = ({ options, results }: FinishedReplay): string | undefined =>
  isScheduled(options) ? clientBottleneck(results.stats) : undefined;

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null);

/** Returns the number of captures and files, and the time span of the captures. */
export const capturesOf = (files: readonly SourceFile[], { total, firstMs, lastMs }: SortedIndex) => ({
  files: files.length,
  records: total,
  firstMs: finite(firstMs),
  lastMs: finite(lastMs),
});

/** Returns where in MLflow the run is logged, for links to its traces. @param url of the server's web page */
export const mlflowFactsOf = ({ experiment, url }: { experiment: Experiment; url?: string }) => ({
  experiment: experiment.name,
  experiment_id: experiment.id,
  ...(url === undefined ? {} : { url }),
});

/** If the client's own delay exceeds this share of the median latency, it counts as a distortion. */
const BOTTLENECK_SHARE = 0.1;
/** A shorter delay is not noticeable. */
const BOTTLENECK_MIN_MS = 10;

/**
 * Explains why this process could not keep to its schedule. Waiting for room under the concurrency cap does not count:
 * the target caused it, and it shows in the latency from the scheduled time.
 *
 * @returns `undefined` if the client was fast enough
 */
export function clientBottleneck(stats: RunStats): string | undefined {
  const own = neverSent(stats);
  if (own !== undefined) return own;
  const lag = stats.distributions.get('replay_client_lag');
  if (!lag || lag.count === 0) return undefined;
  const latency = stats.distributions.get('request_latency')?.percentile(50) ?? 0;
  const p99 = lag.percentile(99);
  const allowed = Math.max(BOTTLENECK_MIN_MS, BOTTLENECK_SHARE * latency);
  if (p99 <= allowed) return undefined;
  return `1% of the requests were sent ${p99.toFixed(1)} ms or more after their scheduled time because this client was busy; expected: at most ${allowed.toFixed(1)} ms`;
}

// ---------------------------------------------------------------------------------------------------------- error rate
// Decides whether too many requests of a replay failed.

/** Describes the requests that this machine could not send. Returns `undefined` if it sent all of them. */
export function neverSent(stats: RunStats): string | undefined {
  const own = [...stats.errors.values()].filter(({ error }) => isOwnFailure(error));
  const [first] = own;
  if (!first) return undefined;
  const requests = own.reduce((sum, { count }) => sum + count, 0);
  return `${requests} requests never left this machine: ${first.error.type}: ${first.error.message}`;
}

/**
 * Applies the limit on failed requests. Requests that were canceled on purpose do not count, because the target did not
 * fail them. If other requests remain, at least one of them must succeed, whatever the limit is.
 *
 * @param allowed percent
 * @returns why the replay failed by this rule; `undefined` if it did not
 */
export function tooManyFailed(stats: RunStats, allowed: number): string | undefined {
  const { cancelledOnPurpose, succeeded } = stats;
  const failed = stats.failures;
  const counted = failed + succeeded;
  if (counted === 0) return undefined;
  const rate = (100 * failed) / counted;
  if (rate <= allowed && succeeded > 0) return undefined;
  return (
    `${failed} of ${counted} requests failed (${rate.toFixed(2)}%); allowed: ${allowed}%` +
    (succeeded === 0 ? '; none succeeded' : '') +
    (cancelledOnPurpose > 0 ? `; ${cancelledOnPurpose} more were canceled on purpose` : '')
  );
}
