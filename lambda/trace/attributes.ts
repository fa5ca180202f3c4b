/** The root span's attributes: how the capture came to be what the trace shows. */
import type { Capture, Payload, RawLine } from '../capture/types.ts';
import { viewTools } from './chat-view.ts';
import type { Exchange } from './exchange.ts';
import { cleanText, cleanValue, withinDepth } from './text.ts';

/** What was captured of one side, besides its content. */
const aboutPayload = (payload: Payload | undefined): Record<string, unknown> | undefined =>
  payload === undefined
    ? undefined
    : {
        content_type: payload.contentType === null ? null : cleanText(payload.contentType),
        encoding: cleanText(payload.encoding),
        kind: payload.kind,
        bytes: payload.bytes,
        ...(payload.problem === undefined ? {} : { problem: cleanText(payload.problem) }),
      };

/** The payload's text where its value does not say all of it. */
const textOf = (payload: Payload | undefined, cleaned: boolean): string | undefined =>
  payload?.text !== undefined && (payload.keepText || (cleaned && payload.kind !== 'text' && payload.kind !== 'raw'))
    ? cleanText(payload.text)
    : undefined;

const orUndefined = <T>(list: T[] | undefined): T[] | undefined =>
  list !== undefined && list.length > 0 ? list : undefined;

/** Attributes as JSON values; MLflow's own begin with `mlflow.`, the others with `capture.`. */
export function rootAttributes(capture: Capture, raw: RawLine, exchange: Exchange): Record<string, unknown> {
  const { conversation, request, response, error } = capture;
  const { bucket, key, versionId, line, start, end } = raw.place;
  const custom = Object.keys(capture.attributes).length > 0 ? cleanValue(capture.attributes).value : undefined;
  const attributes: Record<string, unknown> = {
    'mlflow.message.format': conversation === undefined ? undefined : 'openai',
    'mlflow.chat.tools': orUndefined(viewTools(conversation?.tools)),
    'capture.format': capture.format,
    'capture.wire_format': capture.wireFormat,
    'capture.streamed': capture.streamed,
    'capture.latency': 'not captured: start and end are the inference time',
    'capture.inference_time':
      capture.capturedInferenceTime === undefined ? undefined : cleanText(capture.capturedInferenceTime),
    'capture.time_source': capture.timeSource,
    'capture.event_version': capture.eventVersion === undefined ? undefined : cleanText(capture.eventVersion),
    'capture.place': { bucket, key, ...(versionId === undefined ? {} : { version_id: versionId }), line, start, end },
    'capture.request': aboutPayload(request),
    'capture.response': aboutPayload(response),
    'capture.request.original': exchange.originalRequest,
    'capture.response.original': exchange.originalResponse,
    'capture.request.text': textOf(request, exchange.cleaned),
    'capture.response.text': textOf(response, exchange.cleaned),
    'capture.replaced_characters': exchange.cleaned ? 'NUL and unpaired surrogates are shown as U+FFFD' : undefined,
    'capture.finish_reasons': orUndefined(conversation?.finishReasons),
    'capture.error':
      error === undefined
        ? undefined
        : cleanValue({ ...error, status_code_captured: error.statusCode !== undefined }).value,
    'capture.inference_count': capture.inferenceCount,
    'capture.inference_mismatch': capture.inferenceMismatch,
    'capture.custom_attributes': custom,
    'capture.extra_fields': capture.extraFields === undefined ? undefined : cleanedWithinDepth(capture.extraFields),
    'capture.notes': orUndefined(capture.notes.map(cleanText)),
  };
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));
}

const cleanedWithinDepth = (value: unknown): unknown => cleanValue(withinDepth(value)).value;
