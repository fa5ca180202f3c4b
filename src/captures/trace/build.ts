/** Builds the MLflow trace of a capture, independent of how it is written. */

import { saidBy } from '../../core/errors/errors.ts';
import { isEmptyReply } from '../blank.ts';
import { ofContent } from '../content.ts';
import { failureOf } from '../failure.ts';
import { capturePathOf } from '../files/capture-path.ts';
import { isObject } from '../json.ts';
import { parentSpanOf } from '../record/traceparent.ts';
import type { Capture, Inference, Payload, QuarantineCause, RawLine, TokenUsage } from '../types.ts';
import { viewTools } from './chat-view.ts';
import { exchangeAttributes, exchangeTrace, lineTraceId } from './exchange.ts';
import { genAiAttributes } from './gen-ai.ts';
import { childSpanIdOf, NOT_TRAFFIC_TAG, type NotTraffic, REPLAY_TAG, RUN_TAG, rootSpanIdOf } from './ids.ts';
import { requestPreview, responsePreview } from './preview.ts';
import { type SpanContent, spanContentOf, spanTypeOf } from './span-content.ts';
import { CHANGES, Storer } from './storable.ts';
import { cleanText, cut, fitted, fittedTags } from './text.ts';
import type { SpanRecord, TraceRecord } from './types.ts';
import { withoutTexts } from './without-texts.ts';

interface TraceOptions {
  experimentId: string;
  endpointName: string;
  /** The run that writes the trace. */
  run?: string;
  notTraffic?: NotTraffic | undefined;
}

/** The limit for the status message of a span, which MLflow shows on one line. */
const MAX_STATUS_CHARS = 2000;

/**
 * Builds the trace of a capture. It does not throw for any capture that `decodeLine` returns. The trace starts and ends at
 * the inference time, because Data Capture records no latency; one of the capture client ends when the call ended.
 *
 * @param raw the line of the capture; the id of the trace is derived from its bytes
 *
 * @example
 *     const trace = buildTrace(capture, raw, { experimentId: '1', endpointName: 'my-endpoint' });
 */
export function buildTrace(capture: Capture, raw: RawLine, options: TraceOptions): TraceRecord {
  const trace = ofContent(capture, 'trace', () => {
    const whole = traceOf(capture, raw, options);
    return capture.content === 'none' ? withoutTexts(whole) : whole;
  });
  // The content is built before it is known whether the request's replay id is accepted.
  const { by, name } = options.notTraffic ?? {};
  const sent =
    by === 'replay'
      ? { replay_run: name, [REPLAY_TAG]: 'true' }
      : { replay_run: capture.replayRun, [NOT_TRAFFIC_TAG]: name };
  return exchangeTrace({ ...trace, tags: { ...trace.tags, ...fittedTags(sent) } }, capture);
}

function traceOf(capture: Capture, raw: RawLine, options: TraceOptions): TraceRecord {
  const { exchange, inferenceTimeMs, call } = capture;
  const traceId = lineTraceId(options.experimentId, raw.bytes, exchange !== undefined);
  const seenMs = inferenceTimeMs + Math.round(call?.endMs ?? 0);
  const { startMs, endMs } = exchange ?? { startMs: inferenceTimeMs, endMs: seenMs };
  const time = { startTimeMs: startMs, endTimeMs: Math.max(startMs, endMs) };
  const content = spanContentOf(capture);
  const storer = new Storer();
  const values = stored(content, storer);
  const error = failureOf(capture);
  const status: SpanRecord['status'] =
    error === undefined ? { code: 'OK' } : { code: 'ERROR', message: statusMessage(error) };
  const name = cleanText(exchange?.target ?? options.endpointName);
  const attributes = rootAttributes(capture, raw, content, storer);
  const parent = parentSpanOf(capture.traceparent);
  const root: SpanRecord = {
    spanId: rootSpanIdOf(traceId),
    name,
    spanType: spanTypeOf(capture),
    ...time,
    ...values,
    attributes: exchange ? exchangeAttributes(attributes, exchange) : attributes,
    status,
    ...eventsOf(capture),
    // It is no parent, because its trace is in another system.
    ...(parent && { links: [parent] }),
  };
  return {
    traceId,
    name,
    ...time,
    state: status.code,
    clientRequestId: fittedId(capture.inferenceId),
    requestPreview: requestPreview(capture),
    responsePreview: responsePreview(capture),
    tags: tagsOf(capture, raw, options),
    ...callerOf(capture),
    tokenUsage: capture.usage && tokenUsageOf(capture.usage),
    model: fittedId(capture.model),
    spans: [root, ...inferenceSpans(capture, root, traceId, storer)],
  };
}

/** Returns the caller's ids in the form of the trace. */
const callerOf = ({ userId, sessionId }: Capture): Pick<TraceRecord, 'userId' | 'sessionId'> => ({
  sessionId: fittedId(sessionId),
  userId: fittedId(userId),
});

const fittedId = (id: string | undefined): string | undefined => id && fitted(id);

/** Returns the inference id that the caller chose, in the form of the trace. */
export const chosenId = ({ capturedInferenceId: id }: Pick<Capture, 'capturedInferenceId'>) => fittedId(id);

/** Returns the ids by which a person finds the trace. @param isServing whether labels may name the inference id */
export const callerIds = (capture: Capture, isServing: boolean) => ({
  ...callerOf(capture),
  inferenceId: isServing ? chosenId(capture) : undefined,
  parentTraceId: parentSpanOf(capture.traceparent)?.traceId,
});

/** Returns the reason for quarantining a line if its trace could not be built. */
export function traceNotBuilt(error: unknown): QuarantineCause {
  return { name: 'TraceNotBuilt', message: `The trace of the line could not be built: ${saidBy(error)}` };
}

/** Returns the event of a stream's first content. No convention defines its name; tracers use this name. */
function eventsOf({ inferenceTimeMs, call }: Capture): Pick<SpanRecord, 'events'> {
  if (call?.firstTokenMs === undefined) return {};
  return { events: [{ name: 'gen_ai.first_token', timeMs: inferenceTimeMs + Math.round(call.firstTokenMs) }] };
}

function statusMessage({ statusCode, message, type }: NonNullable<Capture['error']>): string {
  const parts = [statusCode, type, message].filter((part) => part !== undefined);
  return cut(cleanText(parts.join(': ')), MAX_STATUS_CHARS);
}

const tokenUsageOf = ({ inputTokens, outputTokens, totalTokens, cachedInputTokens }: TokenUsage) => ({
  ...{ input_tokens: inputTokens, output_tokens: outputTokens, total_tokens: totalTokens },
  cache_read_input_tokens: cachedInputTokens,
});

/**
 * Returns the status code tag. Data Capture records no HTTP status, but a successful reply always has status 200, so that
 * `tag.status_code LIKE '4%'` and `= '200'` divide the traces. `unknown` is an error without a code. A capture without a
 * reply has no tag.
 */
function statusCodeOf({ call, error, response }: Capture): string | undefined {
  if (call !== undefined) return call.status === undefined ? call.error?.kind : String(call.status);
  if (error !== undefined) return error.statusCode === undefined ? 'unknown' : String(error.statusCode);
  return response === undefined || response.kind === 'empty' ? undefined : '200';
}

function tagsOf(capture: Capture, raw: RawLine, options: TraceOptions): Record<string, string> {
  const isCaptured = capture.timeSource === 'inferenceTime';
  const mismatch = capture.inferenceMismatch;
  return fittedTags({
    sagemaker_endpoint_name: capture.exchange?.target ?? options.endpointName,
    sagemaker_variant_name: capturePathOf(raw.place.key).variant,
    event_id: capture.eventId,
    inference_id: capture.inferenceId,
    inference_time: isCaptured ? capture.capturedInferenceTime : new Date(capture.inferenceTimeMs).toISOString(),
    // Set only if the time is not the captured time.
    inference_time_source: isCaptured ? undefined : capture.timeSource,
    status_code: statusCodeOf(capture),
    s3_bucket_name: raw.place.bucket,
    s3_file_key: raw.place.key,
    capture_format: capture.format,
    traceparent: parentSpanOf(capture.traceparent) && capture.traceparent,
    empty_reply: isEmptyReply(capture) ? 'true' : undefined,
    inference_mismatch: mismatch === undefined ? undefined : `${mismatch.inputs} inputs, ${mismatch.outputs} outputs`,
    replay_run: capture.replayRun,
    [RUN_TAG]: options.run,
    capture_notes: capture.notes.join('; '),
  });
}

/** Builds the child spans of a call with several inferences, one for each. @param root the root span of the trace, from which the children copy times and status */
function inferenceSpans(capture: Capture, root: SpanRecord, traceId: string, storer: Storer): SpanRecord[] {
  const isConversation = capture.conversation !== undefined;
  return (capture.inferences ?? []).map((inference) => ({
    spanId: childSpanIdOf(traceId, inference.index),
    parentSpanId: root.spanId,
    name: `inference ${inference.index}`,
    spanType: isConversation ? root.spanType : 'UNKNOWN',
    startTimeMs: root.startTimeMs,
    endTimeMs: root.endTimeMs,
    ...stored(isConversation ? conversationOf(inference) : rowOf(inference), storer),
    attributes: {
      'inference.index': inference.index,
      ...(inference.inferenceId === '' ? {} : { 'inference.id': fitted(inference.inferenceId) }),
      ...(isConversation ? { 'mlflow.message.format': 'openai' } : {}),
    },
    status: root.status,
  }));
}

type Values = Pick<SpanRecord, 'inputs' | 'outputs'>;

const stored = ({ inputs, outputs }: Values, storer: Storer): Values => ({
  ...(inputs === undefined ? {} : { inputs: storer.store(inputs) }),
  ...(outputs === undefined ? {} : { outputs: storer.store(outputs) }),
});

const rowOf = ({ features, prediction }: Inference): Values => ({ inputs: features, outputs: prediction });

/** Returns one prompt of a batch and its answer as a separate conversation. */
function conversationOf({ features, prediction }: Inference): Values {
  const prompt = isObject(features) && typeof features.prompt === 'string' ? features.prompt : '';
  const replies = Array.isArray(prediction) ? prediction : prediction === undefined ? [] : [prediction];
  const choices = replies.map((content, index) => ({ index, message: { role: 'assistant', content } }));
  return {
    inputs: { messages: [{ role: 'user', content: prompt }] },
    ...(choices.length > 0 ? { outputs: { choices } } : {}),
  };
}

/** The facts of a payload other than its content. */
function aboutPayload(payload: Payload | undefined): Record<string, unknown> | undefined {
  if (payload === undefined) return undefined;
  const { contentType, encoding, kind, bytes, problem } = payload;
  return { content_type: contentType, encoding, kind, bytes, problem };
}

/** Returns the payload's text if its stored value does not contain the whole text. */
const textOf = (payload: Payload | undefined, changed: boolean): string | undefined =>
  payload?.text !== undefined && (payload.keepText || (changed && payload.kind !== 'text' && payload.kind !== 'raw'))
    ? payload.text
    : undefined;

const orUndefined = <T>(list: T[] | undefined): T[] | undefined =>
  list !== undefined && list.length > 0 ? list : undefined;

/**
 * Returns the attributes as JSON values. MLflow's names start with `mlflow.`, OpenTelemetry's with `gen_ai.`, and the
 * others with `capture.`.
 *
 * @param storer has stored the inputs and outputs of the span, and has noted the changes
 */
function rootAttributes(capture: Capture, raw: RawLine, content: SpanContent, storer: Storer): Record<string, unknown> {
  const { conversation, request, response } = capture;
  const { bucket, key, versionId, line, start, end } = raw.place;
  const changed = storer.changes.size > 0;
  const attributes: Record<string, unknown> = {
    'mlflow.message.format': conversation === undefined ? undefined : 'openai',
    'mlflow.chat.tools': orUndefined(viewTools(conversation?.tools)),
    'capture.format': capture.format,
    'capture.wire_format': capture.wireFormat,
    'capture.streamed': capture.streamed,
    'capture.latency': capture.call ? undefined : 'not captured: start and end are the inference time',
    'capture.call': capture.call,
    'capture.inference_time': capture.capturedInferenceTime,
    'capture.time_source': capture.timeSource,
    'capture.event_version': capture.eventVersion,
    'capture.place': { bucket, key, version_id: versionId, line, start, end },
    'capture.request': aboutPayload(request),
    'capture.response': aboutPayload(response),
    'capture.request.original': content.originalRequest,
    'capture.response.original': content.originalResponse,
    'capture.request.text': textOf(request, changed),
    'capture.response.text': textOf(response, changed),
    'capture.finish_reasons': orUndefined(conversation?.finishReasons),
    'capture.error': capture.error,
    'capture.inference_count': capture.inferenceCount,
    'capture.inference_mismatch': capture.inferenceMismatch,
    'capture.custom_attributes': Object.keys(capture.attributes).length > 0 ? capture.attributes : undefined,
    'capture.extra_fields': capture.extraFields,
    'capture.notes': orUndefined(capture.notes),
    ...genAiAttributes(capture, content, callerOf(capture).sessionId),
  };
  const stored: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) stored[name] = storer.store(value);
  }
  if (storer.changes.size > 0)
    stored['capture.changed_for_storage'] = [...storer.changes].map((change) => CHANGES[change]);
  return stored;
}
