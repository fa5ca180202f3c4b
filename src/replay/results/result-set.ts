/** The result files of a run: written while it runs and completed at its end. */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { sum } from '../../core/values/sum.ts';
import type { RunClock } from '../clock.ts';
import { bottleneckOf, type FinishedReplay } from '../finished.ts';
import type { ExchangeError } from '../http/exchange.ts';
import { isCancelledOnPurpose, type Measured, streamOf } from '../measure/measure.ts';
import { ReportCollector } from '../measure/report-collector.ts';
import { RunStats } from '../measure/run-stats.ts';
import { REQUEST_METRICS, type RequestMetric } from '../metrics.ts';
import { inputsFile } from './inputs.ts';
// Files of comparisons and of MLflow. Listed there so that a replay does not have to load those modules.
import LATER_FILES from './later-files.json' with { type: 'json' };
import { LineWriter, SKIPPED_FILE, skippedFile, writeWhole } from './line-writer.ts';
import { figures, summaryCsv, summaryJson } from './summary.ts';

/** Names of the files. All but the last three are AIPerf's. */
export const FILES = {
  records: 'profile_export.jsonl',
  summaryJson: 'profile_export_aiperf.json',
  summaryCsv: 'profile_export_aiperf.csv',
  inputs: 'inputs.json',
  /** Options, counts and mergeable statistics. */
  replay: 'replay.json',
  skipped: SKIPPED_FILE,
  report: 'report.html',
} as const;

/** All files of a run. Other files in the directory are neither replaced nor uploaded to MLflow. */
export const RESULT_FILES: ReadonlySet<string> = new Set([...Object.values(FILES), ...LATER_FILES]);

export interface ResultSetOptions {
  directory: string;
  inputs: boolean;
  workerId: string;
  /** Reads the outcome of a request for other files. @returns functions that keep it. If reading throws, nothing is kept */
  read?: ((measured: Measured, clock: RunClock) => readonly ((() => void) | undefined)[]) | undefined;
}

/** Reasons other than the skipped line itself: the line could not be read when it was due. */
const UNREAD = /^(Capture|Storage|Bucket|Credentials)/;

/** Returns the number of requests that were not sent because their captures could no longer be read. */
export const unreadOf = (skipped: Record<string, number>): number =>
  sum(Object.entries(skipped).map(([reason, count]) => (UNREAD.test(reason) ? count : 0)));

export class ResultSet {
  readonly #options: ResultSetOptions;
  readonly #records: LineWriter;
  /** `inputs.json`. Absent if it is not asked for. */
  readonly inputs: ReturnType<typeof inputsFile> | undefined;
  readonly stats = new RunStats();
  readonly report = new ReportCollector();
  /** The lines that are not replayed. */
  readonly skipped: ReturnType<typeof skippedFile>;
  /** When the run's clock started, a time of `performance.now()`. */
  startAt = 0;
  /** Aborted when a file with one line per request can no longer be written, such as on a full disk. `close` throws the error. */
  readonly unwritable = new AbortController();

  constructor(options: ResultSetOptions) {
    this.#options = options;
    mkdirSync(options.directory, { recursive: true });
    const onError = (error: Error): void => this.unwritable.abort(error);
    this.#records = new LineWriter(this.#path(FILES.records), onError);
    this.skipped = skippedFile(options.directory, onError);
    this.inputs = options.inputs ? inputsFile(this.#path(FILES.inputs)) : undefined;
  }

  #path(name: string): string {
    return join(this.#options.directory, name);
  }

  /** Number of lines that are not replayed, by reason. */
  get skippedReasons(): ReadonlyMap<string, number> {
    return this.skipped.reasons;
  }

  measured(measured: Measured, clock: RunClock): void {
    const epoch = (at: number): number => clock.epochMs(at);
    const { workerId, read } = this.#options;
    // Call everything that may throw first, so that an error leaves no part of the request behind.
    const keep = [this.inputs?.read(measured.request), ...(read?.(measured, clock) ?? [])];
    const record = recordLine(measured, clock, workerId);
    this.stats.add(measured, epoch);
    this.report.add(measured, this.startAt);
    this.#records.write(record);
    for (const one of keep) one?.();
  }

  /**
   * Completes the files: the figures first.
   *
   * @param own further keys of `replay.json`, without secrets
   * @throws PermanentError `ResultsNotWritten` when lines are missing; the figures are written nevertheless
   */
  async finish(replay: FinishedReplay, own: Record<string, unknown>): Promise<void> {
    const failure: unknown = await this.close().catch((error: unknown) => error);
    // On a full disk, the figures need the space of the inputs.
    if (failure !== undefined) await this.inputs?.discard();
    for (const [name, text] of Object.entries(figureFiles(replay, own))) await writeWhole(this.#path(name), text);
    if (failure !== undefined) throw failure;
    const leftOut = await this.inputs?.finish();
    if (leftOut !== undefined)
      await writeWhole(this.#path(FILES.replay), ownJson(replay, { ...own, inputs_left_out: leftOut }));
  }

  /** Completes the files with one line per request. */
  async close(): Promise<void> {
    const closed = await Promise.allSettled([this.#records.close(), this.skipped.close()]);
    for (const one of closed) if (one.status === 'rejected') throw one.reason;
  }
}

/**
 * Returns the files with figures by name, `replay.json` last. @param own further keys of `replay.json`, without secrets
 */
export function figureFiles(replay: FinishedReplay, own: Record<string, unknown>): Record<string, string> {
  return {
    [FILES.summaryJson]: `${JSON.stringify(summaryJson(replay), null, 1)}\n`,
    [FILES.summaryCsv]: summaryCsv(figures(replay.results.stats)),
    [FILES.replay]: ownJson(replay, own),
  };
}

function ownJson(replay: FinishedReplay, own: Record<string, unknown>): string {
  const { run, target, options, captures, sent, unsent, results } = replay;
  const { stats, report, skippedReasons } = results;
  const content = {
    ...{ run, target, options, captures },
    start_ms: replay.startMs,
    end_ms: replay.endMs,
    ...{ sent, unsent },
    was_cancelled: replay.wasCancelled,
    client_bottleneck: bottleneckOf(replay) ?? null,
    max_connections: replay.maxConnections,
    ...own,
    skipped: Object.fromEntries(skippedReasons),
    statistics: stats.toJSON(),
    report: report.toJSON(),
  };
  return `${JSON.stringify(content)}\n`;
}

// --------------------------------------------------------------------------------------------------------- records
// Lines of `profile_export.jsonl` as AIPerf 0.13 writes them, with additional keys that identify the capture.

const METRICS = (Object.keys(REQUEST_METRICS) as RequestMetric[]).map((tag) => ({
  tag,
  before: `${JSON.stringify(tag)}:{"value":`,
  after: `,"unit":${JSON.stringify(REQUEST_METRICS[tag].unit)}}`,
}));

/** Rounds to a millionth of the unit: nanoseconds for milliseconds. */
const number = (value: number): string => {
  const scaled = Math.round(value * 1e6);
  return String(Number.isFinite(scaled) ? scaled / 1e6 : value);
};

const text = (key: string, value: string | undefined): string =>
  value === undefined ? '' : `,${JSON.stringify(key)}:${JSON.stringify(value)}`;

/**
 * Returns the metadata of a record. `credit_issued_ns` is the scheduled time: AIPerf computes `effective_latency` from it,
 * the latency that coordinated omission cannot hide.
 */
function metadataJson(measured: Measured, clock: RunClock, workerId: string): string {
  const { request, exchange, scheduledAt } = measured;
  const conversation = JSON.stringify(request.conversationId);
  const scheduled = clock.epochNs(scheduledAt);
  const end = clock.epochNs(exchange.endAt);
  const ack = Number.isNaN(exchange.headAt) ? '' : `,"request_ack_ns":${clock.epochNs(exchange.headAt)}`;
  const cancelled = measured.cancelled ? `,"cancellation_time_ns":${end}` : '';
  // AIPerf has no metrics for a failed request, so the first token of a broken stream is added to the times.
  const first = measured.error && streamOf(exchange)?.contentAt[0];
  const firstToken = first === undefined ? '' : `,"first_token_ns":${clock.epochNs(first)}`;
  const onPurpose = isCancelledOnPurpose(measured) ? ',"cancelled_on_purpose":true' : '';
  return (
    `{"session_num":${request.number},"x_request_id":${JSON.stringify(request.requestId)}` +
    `,"x_correlation_id":${conversation},"conversation_id":${conversation}` +
    `,"turn_index":0,"credit_issued_ns":${scheduled}` +
    `,"request_start_ns":${clock.epochNs(exchange.startedAt)}${ack}${firstToken},"request_end_ns":${end}` +
    `,"worker_id":${JSON.stringify(workerId)},"record_processor_id":${JSON.stringify(workerId)}` +
    ',"benchmark_phase":"profiling","phase_index":0,"profiling_index":0,"phase_name":"profiling","phase_kind":"profiling"' +
    `,"was_cancelled":${measured.cancelled}${cancelled}${onPurpose}` +
    `,"scheduled_ns":${scheduled}${text('event_id', request.eventId)}${text('inference_id', request.inferenceId)}` +
    `${text('captured_inference_id', request.capturedInferenceId)},"s3_key":${JSON.stringify(request.file)}` +
    `${text('s3_bucket', request.bucket)},"line":${request.line},"captured_ms":${request.capturedMs},"pass":${request.pass}` +
    `${exchange.status ? `,"status":${exchange.status}` : ''}` +
    `${text('isl_source', measured.inputSource)}${text('osl_source', measured.outputSource)}}`
  );
}

const errorJson = (error: ExchangeError): string =>
  JSON.stringify({ code: error.code, type: error.type, message: error.message });

function metricsJson(measured: Measured): string {
  const { error, metrics, gaps } = measured;
  if (error) return '{}';
  let json = '';
  for (const { tag, before, after } of METRICS) {
    const value = metrics[tag];
    if (value !== undefined) json += `${json === '' ? '' : ','}${before}${number(value)}${after}`;
  }
  if (gaps) json += `,"inter_chunk_latency":{"value":[${gaps.map(number).join(',')}],"unit":"ms"}`;
  return `{${json}}`;
}

/** Returns the line without its line ending. @param workerId the process that sent the request */
export function recordLine(measured: Measured, clock: RunClock, workerId: string): string {
  const error = measured.error ? `,"error":${errorJson(measured.error)}` : '';
  const metadata = metadataJson(measured, clock, workerId);
  return `{"metadata":${metadata},"metrics":${metricsJson(measured)}${error}}`;
}
