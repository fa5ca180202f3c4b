/** A capture → the MLflow trace that it becomes, whatever way writes it. */
import { capturePathOf } from '../formats/record/capture-path.ts';
import type { Capture, RawLine } from '../formats/types.ts';
import { rootAttributes } from './attributes.ts';
import { rootSpanIdOf, traceIdOf } from './ids.ts';
import { inferenceSpans } from './inference-spans.ts';
import { requestPreview, responsePreview } from './preview.ts';
import { spanContentOf, spanTypeOf } from './span-content.ts';
import { Storer } from './storable.ts';
import { cleanText, cut, fitted } from './text.ts';
import type { SpanRecord, TraceRecord } from './types.ts';

interface TraceOptions {
  experimentId: string;
  endpointName: string;
  /** When the S3 key does not tell it. */
  variantName?: string;
}

/** Limits of MLflow's fields. */
const MAX_TAG_CHARS = 4096;
/** Message of a span's status; MLflow keeps it whole, and shows it in one line. */
const MAX_STATUS_CHARS = 2000;

/**
 * Builds the trace of one capture; never throws for any capture that `decodeLine` gives. The trace begins and ends at
 * the inference time: Data Capture holds no latency.
 *
 * @param raw the line that the capture was decoded from; the trace's id is derived from its bytes.
 */
export function buildTrace(capture: Capture, raw: RawLine, options: TraceOptions): TraceRecord {
  const traceId = traceIdOf(options.experimentId, raw.bytes);
  const time = { startTimeMs: capture.inferenceTimeMs, endTimeMs: capture.inferenceTimeMs };
  const content = spanContentOf(capture);
  const storer = new Storer();
  const inputs = storer.store(content.inputs);
  const outputs = storer.store(content.outputs);
  const status: SpanRecord['status'] =
    capture.error === undefined ? { code: 'OK' } : { code: 'ERROR', message: statusMessage(capture.error) };
  const name = cleanText(options.endpointName);
  const root: SpanRecord = {
    spanId: rootSpanIdOf(traceId),
    name,
    spanType: spanTypeOf(capture),
    ...time,
    ...(inputs === undefined ? {} : { inputs }),
    ...(outputs === undefined ? {} : { outputs }),
    attributes: rootAttributes(capture, raw, content, storer),
    status,
  };
  return {
    traceId,
    name,
    ...time,
    state: status.code,
    ...(capture.inferenceId === undefined ? {} : { clientRequestId: fitted(capture.inferenceId) }),
    requestPreview: requestPreview(capture),
    responsePreview: responsePreview(capture),
    tags: tagsOf(capture, raw, options),
    ...(capture.sessionId === undefined ? {} : { sessionId: fitted(capture.sessionId) }),
    ...(capture.userId === undefined ? {} : { userId: fitted(capture.userId) }),
    ...tokenUsageOf(capture),
    ...(capture.model === undefined ? {} : { model: fitted(capture.model) }),
    spans: [root, ...inferenceSpans(capture, root, traceId, storer)],
  };
}

function statusMessage({ statusCode, message, type }: NonNullable<Capture['error']>): string {
  const text = [statusCode === undefined ? undefined : String(statusCode), type, message].filter(
    (part) => part !== undefined,
  );
  return cut(cleanText(text.join(': ')), MAX_STATUS_CHARS);
}

function tokenUsageOf({ usage }: Capture): Pick<TraceRecord, 'tokenUsage'> {
  if (usage === undefined) return {};
  const { inputTokens, outputTokens, totalTokens, cachedInputTokens } = usage;
  return {
    tokenUsage: {
      input_tokens: inputTokens,
      output_tokens: outputTokens,
      total_tokens: totalTokens,
      cache_read_input_tokens: cachedInputTokens,
    },
  };
}

/**
 * `200` for a good reply, so that `tag.status_code LIKE '4%'` and `= '200'` divide the traces: Data Capture records no
 * HTTP status, and an endpoint answers well with 200 only. `unknown` for an error that does not tell its code; no tag
 * when no reply was captured.
 */
function statusCodeOf({ error, response }: Capture): string | undefined {
  if (error !== undefined) return error.statusCode === undefined ? 'unknown' : String(error.statusCode);
  return response === undefined || response.kind === 'empty' ? undefined : '200';
}

function tagsOf(capture: Capture, raw: RawLine, options: TraceOptions): Record<string, string> {
  const isCaptured = capture.timeSource === 'inferenceTime';
  const mismatch = capture.inferenceMismatch;
  const tags: Record<string, string | undefined> = {
    sagemaker_endpoint_name: options.endpointName,
    sagemaker_variant_name: capturePathOf(raw.place.key).variant ?? options.variantName,
    event_id: capture.eventId,
    inference_id: capture.inferenceId,
    inference_time: isCaptured ? capture.capturedInferenceTime : new Date(capture.inferenceTimeMs).toISOString(),
    // Only where the time is not the captured one.
    inference_time_source: isCaptured ? undefined : capture.timeSource,
    status_code: statusCodeOf(capture),
    s3_bucket_name: raw.place.bucket,
    s3_file_key: raw.place.key,
    capture_format: capture.format,
    inference_mismatch: mismatch === undefined ? undefined : `${mismatch.inputs} inputs, ${mismatch.outputs} outputs`,
    replay_run: capture.replayRun,
    capture_notes: capture.notes.length > 0 ? capture.notes.join('; ') : undefined,
  };
  return Object.fromEntries(
    Object.entries(tags).flatMap(([key, value]) =>
      value === undefined || value === '' ? [] : [[key, cut(cleanText(value), MAX_TAG_CHARS)]],
    ),
  );
}
