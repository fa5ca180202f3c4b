/** The MLflow trace of a replayed request: the captured form of it, with the times that were measured. */
import { decodeLine } from '../../formats/decode.ts';
import type { RawLine } from '../../formats/types.ts';
import { buildTrace } from '../../trace/build.ts';
import { rootSpanIdOf, traceIdOf } from '../../trace/ids.ts';
import { cleanText, cut } from '../../trace/text.ts';
import type { TraceRecord } from '../../trace/types.ts';
import type { ReplayedLine } from './replayed-line.ts';

/** MLflow's limits. */
const MAX_TAG_CHARS = 4096;
const MAX_SESSION_CHARS = 250;

/** Of a request that was sent: the same captured request sent twice is two traces, the request's own id makes them so. */
export const replayTraceIdOf = (experimentId: string, run: string, requestId: string): string =>
  traceIdOf(experimentId, Buffer.from(`${run}\n${requestId}`));

/**
 * @param line a line of the spool
 * @returns `undefined` for a line that is no capture record, which the spool does not hold
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
  const [root, ...children] = trace.spans;
  const span = { startTimeMs: replay.startMs, endTimeMs: Math.max(replay.startMs, replay.endMs) };
  const rootId = rootSpanIdOf(traceId);
  // Says of captures that they hold no latency; this one was measured.
  const { 'capture.latency': _none, ...attributes } = root?.attributes ?? {};
  const tags: Record<string, string | undefined> = {
    ...trace.tags,
    replay_run: replay.run,
    replay_request_id: replay.requestId,
    captured_trace_id: replay.capturedTraceId,
    status_code: replay.error ? String(replay.error.code ?? replay.error.type) : String(replay.status),
    conversation_id: replay.conversationId,
    turn_index: String(replay.turnIndex),
  };
  return {
    ...trace,
    traceId,
    ...span,
    clientRequestId: trace.clientRequestId ?? replay.requestId,
    sessionId: trace.sessionId ?? cut(cleanText(replay.conversationId), MAX_SESSION_CHARS),
    tags: Object.fromEntries(
      Object.entries(tags).flatMap(([key, value]) => (value ? [[key, cut(cleanText(value), MAX_TAG_CHARS)]] : [])),
    ),
    spans: [
      ...(root
        ? [
            {
              ...root,
              ...span,
              spanId: rootId,
              attributes: {
                ...attributes,
                'replay.schedule_lag_ms': replay.startMs - replay.scheduledMs,
                'replay.latency_ms': replay.endMs - replay.startMs,
              },
            },
          ]
        : []),
      ...children.map((child) => ({ ...child, ...span, parentSpanId: rootId })),
    ],
  };
}
