/** Builds the inputs and outputs of the root span. */
import { isObject, type JsonObject } from '../json.ts';
import { isThere } from '../payload/decode-payload.ts';
import type { Capture, ChatMessage, Payload } from '../types.ts';
import { viewMessage } from './chat-view.ts';
import TYPES from './span-types.json' with { type: 'json' };

export interface SpanContent {
  /** `undefined` if not captured. */
  inputs?: unknown;
  outputs?: unknown;
  /** The captured document, if `inputs` or `outputs` show it in another form. */
  originalRequest?: unknown;
  originalResponse?: unknown;
}

const SPAN_TYPES: Partial<Record<Capture['format'], string>> = TYPES;

/** Returns MLflow's type of the root span. An error has the type of its request. */
export function spanTypeOf({ format, conversation, wireFormat }: Capture): string {
  if (format !== 'error') return SPAN_TYPES[format] ?? 'UNKNOWN';
  if (conversation === undefined) return 'UNKNOWN';
  return wireFormat === 'tgi' || wireFormat === 'openai-completion' ? 'LLM' : 'CHAT_MODEL';
}

/** Keeps chat payloads in OpenAI's format. Converts other conversations to it, and keeps the original too. */
export function spanContentOf(capture: Capture): SpanContent {
  const content: SpanContent = {};
  if (isThere(capture.request)) {
    const { shown, isOriginal } = requestView(capture, capture.request);
    content.inputs = shown;
    if (!isOriginal) content.originalRequest = capture.request.value;
  }
  if (isThere(capture.response)) {
    const { shown, isOriginal } = responseView(capture, capture.response);
    content.outputs = shown;
    if (!isOriginal) content.originalResponse = capture.response.value;
  }
  return content;
}

interface View {
  shown: unknown;
  isOriginal: boolean;
}

const asCaptured = ({ value }: Payload): View => ({ shown: value, isOriginal: true });

function requestView({ conversation, model }: Capture, request: Payload): View {
  if (conversation === undefined || conversation.messages.length === 0) return asCaptured(request);
  const messages = conversation.messages.map((message) => viewMessage(message, false));
  const { value } = request;
  const captured = isObject(value) && Array.isArray(value.messages) ? value.messages : undefined;
  if (captured !== undefined && sameItems(captured, messages)) return asCaptured(request);
  const shown: JsonObject = {
    ...(isObject(value) && typeof value.model === 'string' ? { model } : {}),
    ...conversation.parameters,
    messages,
    ...(conversation.tools === undefined ? {} : { tools: conversation.tools }),
  };
  // The message contains all of the original, which is plain text.
  return { shown, isOriginal: request.kind === 'text' };
}

function responseView(capture: Capture, response: Payload): View {
  const { conversation, error } = capture;
  if (conversation === undefined || error !== undefined || conversation.replies.length === 0)
    return asCaptured(response);
  const replies = conversation.replies.map((reply) => viewMessage(reply, true));
  const { value } = response;
  const choices = isObject(value) && Array.isArray(value.choices) ? value.choices : undefined;
  const captured = choices?.map((choice) => (isObject(choice) ? choice.message : undefined));
  if (captured !== undefined && sameItems(captured, replies)) return asCaptured(response);
  return { shown: { choices: choicesOf(replies, conversation.finishReasons) }, isOriginal: response.kind === 'text' };
}

const choicesOf = (replies: ChatMessage[], reasons: string[]): JsonObject[] =>
  replies.map((message, index) => ({ index, message, finish_reason: reasons[index] }));

const sameItems = (left: readonly unknown[], right: readonly unknown[]): boolean =>
  left.length === right.length && left.every((item, index) => item === right[index]);
