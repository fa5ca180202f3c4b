/** Builds the MLflow trace of a replayed request: the trace of its captured form, with the measured times. */
import { decodeLine } from '../../captures/decode.ts';
import { buildTrace } from '../../captures/trace/build.ts';
import { rootSpanIdOf, traceIdOf } from '../../captures/trace/ids.ts';
import { cleanText, cut, fittedTags, MAX_METADATA_CHARS } from '../../captures/trace/text.ts';
import type { TraceRecord } from '../../captures/trace/types.ts';
import type { RawLine } from '../../captures/types.ts';
import type { ReplayedLine, ReplayFacts } from './replayed-line.ts';

/** Derives the trace id from the request id, so that a captured request that is sent twice has two traces. */
export const replayTraceIdOf = (experimentId: string, run: string, requestId: string): string =>
  traceIdOf(experimentId, Buffer.from(`${run}\n${requestId}`));

/**
 * @param line a line of the spool
 * @returns `undefined` for a line that is not a capture record, which the spool does not contain
 */
export function replayTrace(line: string, experimentId: string): TraceRecord | undefined {
  const { replay } = JSON.parse(line) as ReplayedLine;
  const bytes = Buffer.from(line, 'utf8');
  const raw: RawLine = {
    bytes,
    place: {
      bucket: replay.bucket ?? '',
      key: replay.file,
      etag: '',
      line: replay.line,
      start: 0,
      end: Math.max(0, bytes.length - 1),
      objectTimeMs: replay.startMs,
    },
  };
  const decoded = decodeLine(raw);
  if (decoded.kind !== 'capture') return undefined;
  const trace = buildTrace(decoded.capture, raw, { experimentId, endpointName: replay.target });
  const traceId = replayTraceIdOf(experimentId, replay.run, replay.requestId);
  return {
    ...trace,
    traceId,
    ...timesOf(replay),
    clientRequestId: trace.clientRequestId ?? replay.requestId,
    sessionId: trace.sessionId ?? cut(cleanText(replay.conversationId), MAX_METADATA_CHARS),
    tags: tagsOf(trace, replay),
    spans: spansOf(trace, replay, rootSpanIdOf(traceId)),
  };
}

const timesOf = ({ startMs, endMs }: ReplayFacts) => ({ startTimeMs: startMs, endTimeMs: Math.max(startMs, endMs) });

function tagsOf(trace: TraceRecord, replay: ReplayFacts): Record<string, string> {
  return fittedTags({
    ...trace.tags,
    replay_run: replay.run,
    replay_request_id: replay.requestId,
    captured_trace_id: replay.capturedTraceId,
    status_code: replay.error ? String(replay.error.code ?? replay.error.type) : String(replay.status),
    conversation_id: replay.conversationId,
    turn_index: String(replay.turnIndex),
  });
}

function spansOf(
  { spans: [root, ...children] }: TraceRecord,
  replay: ReplayFacts,
  spanId: string,
): TraceRecord['spans'] {
  const times = timesOf(replay);
  // The attribute states that captures contain no latency; here it was measured.
  const { 'capture.latency': _none, ...captured } = root?.attributes ?? {};
  const attributes = {
    ...captured,
    'replay.schedule_lag_ms': replay.startMs - replay.scheduledMs,
    'replay.latency_ms': replay.endMs - replay.startMs,
  };
  return [
    ...(root ? [{ ...root, ...times, spanId, attributes }] : []),
    ...children.map((child) => ({ ...child, ...times, parentSpanId: spanId })),
  ];
}
