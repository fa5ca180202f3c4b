/**
 * The exchange of a replay: a capture line that the sender writes itself, with facts that captures lack, such as
 * measured times. Only runs over a replay read such lines, because any caller could have written them into an
 * endpoint's captures.
 */
import type { Capture, ExchangeFacts } from '../types.ts';
import { REPLAY_TAG, traceIdOf } from './ids.ts';
import { cleanText, fittedTags } from './text.ts';
import type { TraceRecord } from './types.ts';

/** Returns the id of the trace: a captured request that is sent twice has two. */
export const exchangeTraceId = (experimentId: string, run: string, requestId: string): string =>
  traceIdOf(experimentId, Buffer.from(`${run}\n${requestId}`));

/**
 * Formats a line. It begins with the facts for its trace id, so that the id of a long line can be read without decoding
 * the line.
 */
export const exchangeLine = ({ requestId, run, ...facts }: ExchangeFacts, record: object): string =>
  JSON.stringify({ exchange: { requestId, run, ...facts }, ...record });

const BEGINNING = /^\{"exchange":\{"requestId":("(?:[^"\\]|\\.)*"),"run":("(?:[^"\\]|\\.)*")/;
const MAX_BEGINNING = 1024;

/**
 * Returns the id of a line's trace without decoding the line.
 *
 * @param line `RawLine.bytes`
 * @param isExchange whether `exchangeLine` created the line
 */
export function lineTraceId(experimentId: string, line: Buffer, isExchange: boolean): string {
  const beginning = isExchange ? BEGINNING.exec(line.toString('utf8', 0, MAX_BEGINNING)) : null;
  const [, requestId, run] = beginning ?? [];
  if (requestId === undefined || run === undefined) return traceIdOf(experimentId, line);
  return exchangeTraceId(experimentId, JSON.parse(run), JSON.parse(requestId));
}

/** Returns the attributes of the root span: with the place of the captured line, and the latency, which captures do not have. */
export function exchangeAttributes(attributes: Record<string, unknown>, facts: ExchangeFacts): Record<string, unknown> {
  const { 'capture.latency': _none, ...captured } = attributes;
  return {
    ...captured,
    'capture.place': { bucket: facts.bucket, key: cleanText(facts.file), line: facts.line },
    'replay.schedule_lag_ms': facts.startMs - facts.scheduledMs,
    'replay.latency_ms': facts.endMs - facts.startMs,
  };
}

/** Adds the facts of an exchange to its trace. */
export function exchangeTrace(trace: TraceRecord, { exchange }: Capture): TraceRecord {
  if (exchange === undefined) return trace;
  return {
    ...trace,
    ...(exchange.mlflowRun === undefined ? {} : { sourceRun: exchange.mlflowRun }),
    clientRequestId: trace.clientRequestId ?? exchange.requestId,
    tags: fittedTags({
      ...trace.tags,
      replay_run: exchange.run,
      [REPLAY_TAG]: 'true',
      replay_request_id: exchange.requestId,
      captured_trace_id: exchange.capturedTraceId,
      s3_bucket_name: exchange.bucket,
      s3_file_key: exchange.file,
      status_code: exchange.error ? String(exchange.error.code ?? exchange.error.type) : String(exchange.status),
    }),
  };
}
