/**
 * Describes a call under OpenTelemetry's names for generative AI, which other tools read. The conventions are those of
 * November 2026, with the status "development".
 */
import { firstOf } from '../first-of.ts';
import { type JsonObject, parseJson } from '../json.ts';
import { modelOf } from '../meaning/interpret.ts';
import { documentOf } from '../payload/decode-payload.ts';
import type { Capture, ChatMessage, Payload } from '../types.ts';
import { fieldsOf, textIn } from '../wire/wire-format.ts';
import { viewTools } from './chat-view.ts';
import NAMES from './gen-ai-names.json' with { type: 'json' };
import { type SpanContent, spanTypeOf } from './span-content.ts';
import { fitted, MAX_TAG_CHARS } from './text.ts';

const OPERATIONS: Readonly<Record<string, string>> = NAMES.operations;

/**
 * Maximum size of a request or a reply whose messages are also written under these names, in bytes. MLflow's inputs and
 * outputs contain the texts of every size, so that the trace of a large payload would double.
 */
const MAX_MESSAGES_BYTES = 64 * 1024;

/** Returns the attributes of a call to a model of texts or embeddings. Returns no attributes for other calls. */
export function genAiAttributes(capture: Capture, content: SpanContent, sessionId?: string): Record<string, unknown> {
  const operation = OPERATIONS[spanTypeOf(capture)];
  if (operation === undefined) return {};
  const { conversation, request, response, usage = {}, call } = capture;
  const reply = fieldsOf(documentOf(response));
  return {
    'gen_ai.operation.name': operation,
    // The conventions have no name for SageMaker, and allow others.
    'gen_ai.provider.name': 'aws.sagemaker',
    'gen_ai.request.model': shortName(modelOf(documentOf(request))),
    ...parametersOf(conversation?.parameters ?? {}),
    'gen_ai.request.stream': capture.streamed,
    'gen_ai.response.id': shortName(textIn(reply.id ?? reply.responseId)),
    'gen_ai.response.model': shortName(modelOf(documentOf(response))),
    'gen_ai.response.finish_reasons': shortTexts(conversation?.finishReasons),
    'gen_ai.response.time_to_first_chunk': call?.streamed && call.firstByteMs ? call.firstByteMs / 1000 : undefined,
    'gen_ai.usage.input_tokens': usage.inputTokens,
    'gen_ai.usage.cache_read.input_tokens': usage.cachedInputTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens,
    'gen_ai.usage.reasoning.output_tokens': usage.reasoningTokens,
    'gen_ai.conversation.id': sessionId,
    ...messagesOf(capture, content),
  };
}

/** Returns the parameters of a request whose values have the type of the conventions. */
function parametersOf(given: Record<string, unknown>): Record<string, unknown> {
  const read = (names: Readonly<Record<string, string[]>>, typed: (value: unknown) => unknown) =>
    Object.entries(names).map(([name, from]) => [`gen_ai.request.${name}`, firstOf(from, (one) => typed(given[one]))]);
  return Object.fromEntries([
    ...read(NAMES.numbers, (value) => (isNumber(value) ? value : undefined)),
    ...read(NAMES.counts, (value) => (Number.isSafeInteger(value) ? value : undefined)),
    ...read(NAMES.texts, (value) => shortTexts(typeof value === 'string' ? [value] : value)),
  ]);
}

const isNumber = (value: unknown): boolean => typeof value === 'number' && Math.abs(value) < Number.MAX_SAFE_INTEGER;

/** Returns a list of texts as it is, unless it is empty or could make the trace large. */
function shortTexts(list: unknown): unknown {
  const areTexts = Array.isArray(list) && list.length > 0 && list.every((one) => typeof one === 'string');
  return areTexts && list.join().length <= MAX_TAG_CHARS ? list : undefined;
}

const shortName = (text: string | undefined): string | undefined => (text ? fitted(text) : undefined);

// -------------------------------------------------------------------------------------------------------- messages

const DATA_URL = /^data:([^;,]*);base64,/;

function messagesOf({ conversation, request, response }: Capture, content: SpanContent): Record<string, unknown> {
  if (conversation === undefined) return {};
  const isSmall = (payload?: Payload): boolean => payload !== undefined && payload.bytes <= MAX_MESSAGES_BYTES;
  const asked = isSmall(request) ? content.messages : [];
  const replies = isSmall(response) ? content.replies : [];
  const tools = isSmall(request) ? viewTools(conversation.tools) : [];
  // Some vendors have the instructions beside the messages.
  const isApart = NAMES.instructions.some((name) => fieldsOf(documentOf(request))[name]);
  const first = isApart ? asked.findIndex(({ role }) => role !== 'system') : 0;
  const system = asked.slice(0, first < 0 ? asked.length : first);
  const lists = {
    'gen_ai.system_instructions': system.flatMap(partsOf),
    'gen_ai.input.messages': asked.slice(system.length).map(messageOf),
    'gen_ai.output.messages': replies.map(messageOf),
    'gen_ai.tool.definitions': tools.map((tool) => ({ ...fieldsOf(fieldsOf(tool).function), type: 'function' })),
  };
  return Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length > 0));
}

const messageOf = (message: ChatMessage): JsonObject => ({
  role: message.role,
  ...(typeof message.name === 'string' ? { name: message.name } : {}),
  parts: partsOf(message),
});

function partsOf(message: ChatMessage): JsonObject[] {
  const { role, content, reasoning, tool_calls: calls, tool_call_id: id } = message;
  if (role === 'tool') return [{ type: 'tool_call_response', ...(id ? { id } : {}), response: content }];
  const texts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
  return [
    ...(typeof reasoning === 'string' ? [{ type: 'reasoning', content: reasoning }] : []),
    ...texts.map((part) => partOf(fieldsOf(part))),
    ...(Array.isArray(calls) ? calls.map(callOf) : []),
  ];
}

/** Returns a part of a message that `viewMessage` has returned. */
function partOf(part: JsonObject): JsonObject {
  if (typeof part.text === 'string') return { type: 'text', content: part.text };
  const url = textIn(fieldsOf(part.image_url).url);
  const [begin, mime] = DATA_URL.exec(url) ?? [];
  if (begin) return { type: 'blob', modality: 'image', mime_type: mime, content: url.slice(begin.length) };
  // The conventions allow other kinds of parts.
  return url ? { type: 'uri', modality: 'image', uri: url } : part;
}

function callOf(call: unknown): JsonObject {
  const { id, function: called } = fieldsOf(call);
  const { name, arguments: given } = fieldsOf(called);
  const parsed = parseJson(textIn(given));
  return { type: 'tool_call', id, name, arguments: parsed.ok ? parsed.value : given };
}
