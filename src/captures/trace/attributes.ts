/** Builds the attributes of the root span, which document how the trace was derived from the capture. */
import type { Capture, Payload, RawLine } from '../types.ts';
import { viewTools } from './chat-view.ts';
import type { SpanContent } from './span-content.ts';
import { CHANGES, type Storer } from './storable.ts';

/** The facts of a payload other than its content. */
const aboutPayload = (payload: Payload | undefined): Record<string, unknown> | undefined =>
  payload === undefined
    ? undefined
    : {
        content_type: payload.contentType,
        encoding: payload.encoding,
        kind: payload.kind,
        bytes: payload.bytes,
        problem: payload.problem,
      };

/** Returns the text of the payload if its value, as it is stored, does not contain all of it. */
const textOf = (payload: Payload | undefined, changed: boolean): string | undefined =>
  payload?.text !== undefined && (payload.keepText || (changed && payload.kind !== 'text' && payload.kind !== 'raw'))
    ? payload.text
    : undefined;

const orUndefined = <T>(list: T[] | undefined): T[] | undefined =>
  list !== undefined && list.length > 0 ? list : undefined;

/**
 * Returns the attributes as JSON values. MLflow's names start with `mlflow.`, the others with `capture.`.
 *
 * @param storer has stored the inputs and outputs of the span, and has noted the changes
 */
export function rootAttributes(
  capture: Capture,
  raw: RawLine,
  content: SpanContent,
  storer: Storer,
): Record<string, unknown> {
  const { conversation, request, response } = capture;
  const { bucket, key, versionId, line, start, end } = raw.place;
  const changed = storer.changes.size > 0;
  const attributes: Record<string, unknown> = {
    'mlflow.message.format': conversation === undefined ? undefined : 'openai',
    'mlflow.chat.tools': orUndefined(viewTools(conversation?.tools)),
    'capture.format': capture.format,
    'capture.wire_format': capture.wireFormat,
    'capture.streamed': capture.streamed,
    'capture.latency': 'not captured: start and end are the inference time',
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
  };
  const stored: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) stored[name] = storer.store(value);
  }
  if (storer.changes.size > 0)
    stored['capture.changed_for_storage'] = [...storer.changes].map((change) => CHANGES[change]);
  return stored;
}
