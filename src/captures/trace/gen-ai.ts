/**
 * Describes a call under OpenTelemetry's names for generative AI, which other tools read. The conventions are those of
 * November 2026, with the status "development".
 */
import { jsonIn } from '../../core/values/json-in.ts';
import { firstOf } from '../first-of.ts';
import { isObject, type JsonObject } from '../json.ts';
import { modelOf } from '../meaning/interpret.ts';
import { documentOf } from '../payload/decode-payload.ts';
import type { Capture, ChatMessage, Payload } from '../types.ts';
import { fieldsOf, textIn } from '../wire/wire-format.ts';
import { viewMessage } from './chat-view.ts';
import NAMES from './gen-ai-names.json' with { type: 'json' };
import { spanTypeOf } from './span-content.ts';
import { fitted, MAX_METADATA_CHARS } from './text.ts';

/** The conventions have no name for SageMaker, and allow others. */
const PROVIDER = 'aws.sagemaker';
const OPERATIONS: Readonly<Record<string, string>> = NAMES.operations;

/**
 * Maximum size of a request or a reply whose messages are also written under these names, in bytes. MLflow's inputs and
 * outputs contain the texts of every size, so that the trace of a large payload would double.
 */
const MAX_MESSAGES_BYTES = 64 * 1024;
/** Maximum number of stop sequences, and of finish reasons: one for each choice, of which there are at most 128. */
const MAX_TEXTS = 128;

/** Returns the attributes of a call to a model of texts or embeddings. Returns no attributes for other calls. */
export function genAiAttributes(capture: Capture, sessionId: string | undefined): Record<string, unknown> {
  const operation = OPERATIONS[spanTypeOf(capture)];
  if (operation === undefined) return {};
  const { conversation, request, response, usage = {}, call } = capture;
  const reply = fieldsOf(documentOf(response));
  const firstByteMs = call?.streamed ? call.firstByteMs : undefined;
  return {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': PROVIDER,
    'gen_ai.request.model': shortName(modelOf(documentOf(request))),
    ...parametersOf(conversation?.parameters ?? {}),
    'gen_ai.request.stream': capture.streamed,
    'gen_ai.response.id': shortName(textIn(reply.id ?? reply.responseId)),
    'gen_ai.response.model': shortName(modelOf(documentOf(response))),
    'gen_ai.response.finish_reasons': shortTexts(conversation?.finishReasons),
    'gen_ai.response.time_to_first_chunk': firstByteMs === undefined ? undefined : firstByteMs / 1000,
    'gen_ai.usage.input_tokens': usage.inputTokens,
    'gen_ai.usage.cache_read.input_tokens': usage.cachedInputTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens,
    'gen_ai.usage.reasoning.output_tokens': usage.reasoningTokens,
    'gen_ai.conversation.id': sessionId,
    ...messagesOf(capture),
  };
}

/** Returns the parameters of a request whose values have the type of the conventions. */
function parametersOf(given: Record<string, unknown>): Record<string, unknown> {
  const read = (names: Readonly<Record<string, string[]>>, typed: (value: unknown) => unknown) =>
    Object.entries(names).map(([name, from]) => [`gen_ai.request.${name}`, firstOf(from, (one) => typed(given[one]))]);
  return Object.fromEntries([
    ...read(NAMES.numbers, (value) => (Number.isFinite(value) ? value : undefined)),
    ...read(NAMES.counts, (value) => (Number.isSafeInteger(value) ? value : undefined)),
    ...read(NAMES.texts, (value) => shortTexts(typeof value === 'string' ? [value] : value)),
  ]);
}

/** Returns a list of texts as it is, unless it is empty or could make the trace large. */
const shortTexts = (value: unknown): unknown =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.length <= MAX_TEXTS &&
  value.every((one) => typeof one === 'string' && one.length <= MAX_METADATA_CHARS)
    ? value
    : undefined;

const shortName = (text: string | undefined): string | undefined => (text ? fitted(text) : undefined);

// -------------------------------------------------------------------------------------------------------- messages

function messagesOf({ conversation, request, response }: Capture): Record<string, unknown> {
  if (conversation === undefined) return {};
  const { messages, replies, tools = [] } = conversation;
  const isSmall = ({ bytes }: Payload): boolean => bytes <= MAX_MESSAGES_BYTES;
  const written: Record<string, unknown> = {};
  if (request !== undefined && isSmall(request)) {
    const views = messages.map((message) => viewMessage(message, false));
    const apart = isSystemApart(documentOf(request)) ? views.findIndex(({ role }) => role !== 'system') : 0;
    const system = apart < 0 ? views : views.slice(0, apart);
    const others = views.slice(system.length);
    if (system.length > 0) written['gen_ai.system_instructions'] = system.flatMap(partsOf);
    if (others.length > 0) written['gen_ai.input.messages'] = others.map(messageOf);
    if (tools.length > 0) written['gen_ai.tool.definitions'] = tools.flatMap(definitionOf);
  }
  if (response !== undefined && isSmall(response) && replies.length > 0)
    written['gen_ai.output.messages'] = replies.map((reply) => messageOf(viewMessage(reply, true)));
  return written;
}

/** Whether a request has its instructions beside its messages, as Anthropic's and Bedrock's have. */
const isSystemApart = (body: unknown): boolean =>
  ['system', 'systemInstruction', 'system_instruction', 'instructions', 'preamble'].some(
    (name) => fieldsOf(body)[name],
  );

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

const DATA_URL = /^data:([^;,]*);base64,/;

/** Returns a part of a message that `viewMessage` has returned: a text, an image or a sound. */
function partOf({ text, image_url: image, input_audio: audio }: JsonObject): JsonObject {
  if (typeof text === 'string') return { type: 'text', content: text };
  const { data, format } = fieldsOf(audio);
  if (typeof data === 'string')
    return { type: 'blob', modality: 'audio', ...(format ? { mime_type: `audio/${format}` } : {}), content: data };
  const url = textIn(fieldsOf(image).url);
  const [begin, mime] = DATA_URL.exec(url) ?? [];
  if (begin === undefined) return { type: 'uri', modality: 'image', uri: url };
  return { type: 'blob', modality: 'image', mime_type: mime, content: url.slice(begin.length) };
}

function callOf(call: unknown): JsonObject {
  const { id, function: called } = fieldsOf(call);
  const { name, arguments: given } = fieldsOf(called);
  return { type: 'tool_call', id, name, arguments: typeof given === 'string' ? (jsonIn(given) ?? given) : given };
}

/** Returns a tool in the form of the conventions, or nothing for a tool without a name. */
function definitionOf(tool: unknown): JsonObject[] {
  const { type, function: own, ...fields } = fieldsOf(tool);
  const given = isObject(own) ? own : fields;
  return typeof given.name === 'string' ? [{ ...given, type: textIn(type) || 'function', name: given.name }] : [];
}
