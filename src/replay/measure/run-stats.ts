/** The statistics of a run: distributions and counts that can be merged across shards. */
import { addCounts } from '../../core/values/counts.ts';
import type { ExchangeError } from '../http/exchange.ts';
import {
  DISTRIBUTION_METRICS,
  type DistributionMetric,
  type MetricDefinition,
  REQUEST_METRICS,
  type RequestMetric,
} from '../metrics.ts';
import { Distribution } from './distribution.ts';
import { isCancelledOnPurpose, type Measured } from './measure.ts';

/**
 * Maximum number of distinct errors. Further errors count as `OtherErrors`, so that unique messages cannot fill the
 * memory.
 */
const MAX_ERROR_KINDS = 200;

/** Error messages of servers for a request that is too long for the model. */
const CONTEXT_OVERFLOW = /context length|maximum context|context_length_exceeded|prompt is too long/i;

/**
 * A reply is a mismatch if it differs from its limit by more than this percentage or number of tokens, whichever is
 * smaller.
 */
const MISMATCH_PERCENT = 5;
const MISMATCH_TOKENS = 50;
const isMismatch = (output: number, limit: number): boolean =>
  Math.abs(output - limit) > Math.min((limit * MISMATCH_PERCENT) / 100, MISMATCH_TOKENS);

interface ErrorCount {
  error: ExchangeError;
  count: number;
}

const METRIC_TAGS = Object.keys(REQUEST_METRICS) as RequestMetric[];

export class RunStats {
  readonly distributions = new Map<DistributionMetric, Distribution>();
  readonly errors = new Map<string, ErrorCount>();
  succeeded = 0;
  /** Includes canceled requests, as AIPerf counts them. */
  failed = 0;
  cancelled = 0;
  /** Canceled by `--request-cancellation-rate`. The others were in flight when the run ended early. */
  cancelledOnPurpose = 0;
  good = 0;
  withObjectives = false;
  /** Requests that were refused because they exceed the model's context. */
  contextOverflows = 0;
  /** Replies that are much shorter or longer than the request's limit. */
  lengthMismatches = 0;
  /** Sum of the times that requests were in flight. */
  busyMs = 0;
  firstStartMs = Number.POSITIVE_INFINITY;
  lastEndMs = Number.NEGATIVE_INFINITY;

  get completed(): number {
    return this.succeeded + this.failed;
  }

  /** Number of failed requests without those canceled on purpose, which only AIPerf counts as failed. */
  get failures(): number {
    return this.failed - this.cancelledOnPurpose;
  }

  /** The errors, most frequent first. */
  get errorsByCount(): ErrorCount[] {
    return [...this.errors.values()].sort((a, b) => b.count - a.count);
  }

  distribution(metric: DistributionMetric): Distribution {
    let distribution = this.distributions.get(metric);
    if (!distribution) {
      const { scale, lowest }: MetricDefinition = DISTRIBUTION_METRICS[metric];
      distribution = new Distribution(scale, lowest);
      this.distributions.set(metric, distribution);
    }
    return distribution;
  }

  /** @param epochMs converts a time of `performance.now()` to epoch milliseconds */
  add(measured: Measured, epochMs: (at: number) => number): void {
    const { exchange, metrics, error, request } = measured;
    this.firstStartMs = Math.min(this.firstStartMs, epochMs(exchange.startedAt));
    this.lastEndMs = Math.max(this.lastEndMs, epochMs(exchange.endAt));
    this.distribution('credit_to_start_latency').add(exchange.startedAt - measured.scheduledAt);
    this.distribution('replay_client_lag').add(exchange.startedAt - measured.roomAt);
    this.busyMs += exchange.endAt - exchange.startedAt;
    if (error) {
      this.failed++;
      if (measured.cancelled) this.cancelled++;
      if (isCancelledOnPurpose(measured)) this.cancelledOnPurpose++;
      if (CONTEXT_OVERFLOW.test(error.message)) this.contextOverflows++;
      this.#countError(error);
      return;
    }
    this.succeeded++;
    // Count only answered requests, as for the latency from sending: a refusal after 2 ms is not a fast reply.
    this.distribution('effective_latency').add(exchange.endAt - measured.scheduledAt);
    for (const tag of METRIC_TAGS) {
      const value = metrics[tag];
      if (value !== undefined) this.distribution(tag).add(value);
    }
    const { output_sequence_length: output } = metrics;
    if (metrics.osl_mismatch_diff_pct !== undefined && isMismatch(output ?? 0, request.outputLimit ?? 0)) {
      this.lengthMismatches++;
    }
    if (metrics.good_request_count !== undefined) {
      this.withObjectives = true;
      this.good += metrics.good_request_count;
    }
    const { latency_ms: latency, time_to_first_token_ms: firstToken } = request.capturedTimes ?? {};
    if (latency !== undefined) this.distribution('captured_latency').add(latency);
    if (firstToken !== undefined) this.distribution('captured_time_to_first_token').add(firstToken);
    if (measured.gaps) for (const gap of measured.gaps) this.distribution('inter_chunk_latency').add(gap);
  }

  #countError(error: ExchangeError, count = 1): void {
    let key = `${error.code ?? ''}|${error.type}|${error.message}`;
    let kept = error;
    if (!this.errors.has(key) && this.errors.size >= MAX_ERROR_KINDS) {
      kept = { type: 'OtherErrors', message: `errors beyond the first ${MAX_ERROR_KINDS} kinds` };
      key = kept.type;
    }
    const known = this.errors.get(key);
    if (known) known.count += count;
    else this.errors.set(key, { error: kept, count });
  }

  /** Adds the statistics of another process. */
  merge({ distributions, errors, withObjectives, firstStartMs, lastEndMs, ...counts }: RunStatsJson): void {
    for (const [metric, distribution] of Object.entries(distributions))
      this.distribution(metric as DistributionMetric).merge(distribution);
    addCounts<keyof typeof counts>(this, counts);
    this.withObjectives ||= withObjectives;
    for (const { error, count } of errors) this.#countError(error, count);
    this.firstStartMs = Math.min(this.firstStartMs, firstStartMs ?? Infinity);
    this.lastEndMs = Math.max(this.lastEndMs, lastEndMs ?? -Infinity);
  }

  /** `firstStartMs`, `lastEndMs`: of the first request and of the last reply, epoch ms; `null` without requests. */
  toJSON() {
    const { distributions, errors, firstStartMs, lastEndMs, ...counts }: RunStats = this;
    return {
      distributions: Object.fromEntries([...distributions].map(([metric, d]) => [metric, d.toJSON()] as const)),
      ...counts,
      errors: [...errors.values()],
      firstStartMs: Number.isFinite(firstStartMs) ? firstStartMs : null,
      lastEndMs: Number.isFinite(lastEndMs) ? lastEndMs : null,
    };
  }
}

export type RunStatsJson = ReturnType<RunStats['toJSON']>;
