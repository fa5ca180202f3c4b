/** Builds the inputs and outputs of the root span. */
import { isObject } from '../json.ts';
import { isThere } from '../payload/decode-payload.ts';
import type { Capture, ChatMessage, Payload } from '../types.ts';
import { viewMessage } from './chat-view.ts';
import TYPES from './span-types.json' with { type: 'json' };

export interface SpanContent {
  /** `undefined` if not captured. */
  inputs: unknown;
  outputs: unknown;
  /** The captured document, if `inputs` or `outputs` show it in another form. */
  originalRequest: unknown;
  originalResponse: unknown;
  /** The conversation in the form of MLflow's page. */
  messages: readonly ChatMessage[];
  replies: readonly ChatMessage[];
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
  const { conversation, request, response } = capture;
  const messages = (conversation?.messages ?? []).map((message) => viewMessage(message, false));
  const replies = (conversation?.replies ?? []).map((reply) => viewMessage(reply, true));
  const inputs = isThere(request) ? inputsOf(capture, request, messages) : undefined;
  const outputs = isThere(response) ? outputsOf(capture, response, replies) : undefined;
  return {
    ...{ messages, replies, inputs, outputs },
    originalRequest: originalOf(request, inputs),
    originalResponse: originalOf(response, outputs),
  };
}

/** A message contains all of a plain text. */
const originalOf = (payload: Payload | undefined, shown: unknown): unknown =>
  isThere(payload) && payload.kind !== 'text' && payload.value !== shown ? payload.value : undefined;

function inputsOf({ conversation, model }: Capture, { value }: Payload, messages: ChatMessage[]): unknown {
  if (conversation === undefined || messages.length === 0) return value;
  const captured = isObject(value) && Array.isArray(value.messages) ? value.messages : undefined;
  if (captured !== undefined && sameItems(captured, messages)) return value;
  return {
    ...(isObject(value) && typeof value.model === 'string' ? { model } : {}),
    ...conversation.parameters,
    messages,
    ...(conversation.tools === undefined ? {} : { tools: conversation.tools }),
  };
}

function outputsOf({ conversation, error }: Capture, { value }: Payload, replies: ChatMessage[]): unknown {
  if (conversation === undefined || error !== undefined || replies.length === 0) return value;
  const choices = isObject(value) && Array.isArray(value.choices) ? value.choices : undefined;
  const captured = choices?.map((choice) => (isObject(choice) ? choice.message : undefined));
  if (captured !== undefined && sameItems(captured, replies)) return value;
  const { finishReasons } = conversation;
  return { choices: replies.map((message, index) => ({ index, message, finish_reason: finishReasons[index] })) };
}

const sameItems = (left: readonly unknown[], right: readonly unknown[]): boolean =>
  left.length === right.length && left.every((item, index) => item === right[index]);
