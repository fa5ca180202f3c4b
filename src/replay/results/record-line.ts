/** Formats a line of `profile_export.jsonl` as AIPerf 0.13 does, with additional keys that identify the capture. */
import type { RunClock } from '../clock.ts';
import type { ExchangeError } from '../http/exchange.ts';
import { isCancelledOnPurpose, type Measured } from '../measure/measure.ts';
import { REQUEST_METRICS, type RequestMetric } from '../measure/metrics.ts';

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

export interface RecordContext {
  clock: RunClock;
  /** The process that sent the request. */
  workerId: string;
}

/**
 * Returns the metadata of a record. `credit_issued_ns` is the scheduled time: AIPerf computes `effective_latency` from it,
 * the latency that coordinated omission cannot hide.
 */
export function metadataJson(measured: Measured, { clock, workerId }: RecordContext): string {
  const { request, exchange, scheduledAt } = measured;
  const { turn } = request;
  const scheduled = clock.epochNs(scheduledAt);
  const end = clock.epochNs(exchange.endAt);
  const ack = Number.isNaN(exchange.headAt) ? '' : `,"request_ack_ns":${clock.epochNs(exchange.headAt)}`;
  const cancelled = measured.cancelled ? `,"cancellation_time_ns":${end}` : '';
  const onPurpose = isCancelledOnPurpose(measured) ? ',"cancelled_on_purpose":true' : '';
  const profiling = request.phase === 'profiling' ? ',"profiling_index":0' : '';
  return (
    `{"session_num":${turn.session},"x_request_id":${JSON.stringify(request.requestId)}` +
    `,"x_correlation_id":${JSON.stringify(request.correlationId)},"conversation_id":${JSON.stringify(turn.conversationId)}` +
    `,"turn_index":${turn.turnIndex},"credit_issued_ns":${scheduled}` +
    `,"request_start_ns":${clock.epochNs(exchange.startedAt)}${ack},"request_end_ns":${end}` +
    `,"worker_id":${JSON.stringify(workerId)},"record_processor_id":${JSON.stringify(workerId)}` +
    `,"benchmark_phase":"${request.phase}","phase_index":0${profiling},"phase_name":"${request.phase}","phase_kind":"${request.phase}"` +
    `,"was_cancelled":${measured.cancelled}${cancelled}${onPurpose}` +
    `,"scheduled_ns":${scheduled}${text('event_id', request.eventId)}${text('inference_id', request.inferenceId)}` +
    `${text('captured_inference_id', request.capturedInferenceId)},"s3_key":${JSON.stringify(request.file)}` +
    `${text('s3_bucket', request.bucket)},"line":${request.line},"captured_ms":${request.capturedMs},"pass":${request.pass}` +
    `${exchange.status ? `,"status":${exchange.status}` : ''}` +
    `${text('isl_source', measured.inputSource)}${text('osl_source', measured.outputSource)}}`
  );
}

export const errorJson = (error: ExchangeError): string =>
  JSON.stringify({ code: error.code, type: error.type, message: error.message });

function metricsJson(measured: Measured): string {
  const { error, request, metrics, gaps } = measured;
  if (error) {
    const tokens = request.inputTokens?.count;
    return tokens === undefined ? '{}' : `{"error_isl":{"value":${tokens},"unit":"tokens"}}`;
  }
  let json = '';
  for (const { tag, before, after } of METRICS) {
    const value = metrics[tag];
    if (value !== undefined) json += `${json === '' ? '' : ','}${before}${number(value)}${after}`;
  }
  if (gaps) json += `,"inter_chunk_latency":{"value":[${gaps.map(number).join(',')}],"unit":"ms"}`;
  return `{${json}}`;
}

/** Returns the line without its line ending. */
export function recordLine(measured: Measured, context: RecordContext): string {
  const error = measured.error ? `,"error":${errorJson(measured.error)}` : '';
  return `{"metadata":${metadataJson(measured, context)},"metrics":${metricsJson(measured)}${error}}`;
}
