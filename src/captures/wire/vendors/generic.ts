/**
 * Reads texts under the usual names, as custom servers, Triton, SGLang and llama.cpp use them, and lists of messages.
 */

import { isObject, type JsonObject, toJson } from '../../json.ts';
import type { ChatMessage } from '../../types.ts';
import {
  allMessages,
  asksForJson,
  assistantMessages,
  batchOf,
  flattened,
  isMessageList,
  promptsOf,
  userMessages,
} from '../messages.ts';
import { fieldsOf, objectsIn, type ReadPrompt, textIn, type WireFormat, without } from '../wire-format.ts';

/** Names of a request's text. */
const REQUEST_NAMES = 'input text_inputs text_input text query question user_input instruction content'.split(' ');
/** Names of a reply's text. */
const REPLY_NAMES =
  'output outputs output_text text_output answer response reply result text content message predictions'.split(' ');
/** Names of an envelope's content, beside which `message` is a word such as “ok”: also those of texts that hold none. */
const ENVELOPE_NAMES = ['data', 'results', 'payload', 'body', ...REPLY_NAMES.filter((name) => name !== 'message')];
/** Names of a streamed piece of text. */
const PIECE_NAMES =
  'text outputText generated_text content completion delta token text_output generation output_text response output answer'.split(
    ' ',
  );
/** Fields that mark the last piece. In other pieces they are null, false or missing. */
const END_NAMES = ['stop', 'completionReason', 'finish_reason', 'stop_reason', 'is_finished', 'sequence_end'];

/** Returns the text, or the list of texts, under the first of the names that has one. */
function textUnder(value: unknown, names: readonly string[]): { name: string; texts: string[] } | undefined {
  if (!isObject(value)) return undefined;
  for (const name of names) {
    const field = value[name];
    if (typeof field === 'string' || (Array.isArray(field) && typeof field[0] === 'string')) {
      const texts = promptsOf(field);
      if (texts !== undefined) return { name, texts };
    }
  }
  return undefined;
}

/**
 * Reads a text under one of the usual names, as custom servers, Triton, SGLang and llama.cpp use them. A text on one
 * side only is not enough evidence of a conversation.
 */
export const genericText: WireFormat = {
  name: 'generic-text',
  format: 'text-generation',
  request(body, value) {
    const found = typeof value === 'string' ? { name: '', texts: [value] } : textUnder(body, REQUEST_NAMES);
    if (found === undefined) return undefined;
    const parameters = flattened(without(body, found.name, 'model'));
    return {
      messages: userMessages(found.texts),
      parameters,
      jsonRequested: asksForJson(parameters),
      ...batchOf(found.texts),
    };
  },
  reply(_body, value) {
    // SGLang answers several prompts with a list.
    const items = Array.isArray(value) ? objectsIn(value) : [];
    if (items.length > 1 && items.every((item) => isObject(item.meta_info) && typeof item.text === 'string')) {
      return { replies: assistantMessages(items.map((item) => item.text)), reasons: items.map(reasonOf) };
    }
    const single = Array.isArray(value) && value.length === 1 ? value[0] : value;
    const isTexts = Array.isArray(single) && single.length > 1 && single.every((item) => typeof item === 'string');
    const names =
      isObject(single) && ENVELOPE_NAMES.some((name) => name in single)
        ? REPLY_NAMES.filter((name) => name !== 'message')
        : REPLY_NAMES;
    const texts = typeof single === 'string' ? [single] : isTexts ? single : textUnder(single, names)?.texts;
    return texts && { replies: assistantMessages(texts), reasons: [isObject(single) ? reasonOf(single) : undefined] };
  },
  delta(event) {
    const name = PIECE_NAMES.find((candidate) => typeof event[candidate] === 'string');
    return name === undefined ? undefined : { output: textIn(event[name]) };
  },
  /** Assembles events that each have a piece of text under the same name. The last event may have none. */
  assemble(events) {
    const name = PIECE_NAMES.find((candidate) => typeof events[0]?.[candidate] === 'string');
    if (name === undefined || events.length < 2) return undefined;
    const pieces = events.filter((event) => typeof event[name] === 'string' && Object.keys(event).length <= MAX_FIELDS);
    if (pieces.length < events.length - 1) return undefined;
    const last = events.at(-1) as JsonObject;
    const tells = events.some((event) => END_NAMES.some((end) => end in event));
    const ended = tells ? END_NAMES.some((end) => last[end] != null && last[end] !== false) : undefined;
    return {
      value: {
        ...last,
        finish_reason: reasonOf(last),
        generated_text: textOf(
          pieces.map((event) => event[name] as string),
          last,
        ),
      },
      ended,
    };
  },
  usage: {
    inputTokens: [
      'usage.promptTokens',
      'tokens_evaluated',
      'meta_info.prompt_tokens',
      'headers.x-prompt-tokens',
      'x-prompt-tokens',
    ],
    outputTokens: [
      ...['usage.completionTokens', 'tokens_predicted', 'meta_info.completion_tokens'],
      ...['headers.x-generated-tokens', 'x-generated-tokens'],
    ],
    totalTokens: ['headers.x-total-tokens', 'x-total-tokens'],
    cachedInputTokens: ['meta_info.cached_tokens'],
  },
};

/** Returns the finish reason under the usual name, or under those of SGLang and llama.cpp. */
const reasonOf = ({ finish_reason: reason, meta_info: facts, stop_type: type }: JsonObject): unknown =>
  reason ?? fieldsOf(fieldsOf(facts).finish_reason).type ?? type;

/** Records with many more fields than the text are rows of data, not pieces of a stream. */
const MAX_FIELDS = 24;

/** Joins the pieces. SGLang, recognized by its `meta_info`, repeats all earlier text with each piece. */
function textOf(pieces: string[], { meta_info: facts }: JsonObject): string {
  const isWhole =
    isObject(facts) && pieces.every((piece, at) => at === 0 || piece.startsWith(pieces[at - 1] as string));
  return isWhole ? (pieces.at(-1) as string) : pieces.join('');
}

// ----------------------------------------------------------------------------------------------- lists of messages
// A bare list, or one under `inputs` or `input`, as JumpStart, LMI and MLflow accept them, or several chats.

export const messageList: WireFormat = {
  name: 'message-list',
  format: 'text-generation',
  request(body, value) {
    const rows = isObject(value) ? ROW_NAMES.find((name) => isChats(body[name])) : undefined;
    if (rows !== undefined) return chatsOf(body[rows] as Chat[], without(body, rows));
    const asked = isObject(value) ? (body.inputs ?? body.input) : value;
    const list = isObject(asked) && Array.isArray(asked.messages) ? asked.messages : unwrapped(asked);
    if (!isMessageList(list)) return undefined;
    const inner = isObject(asked) ? without(asked, 'messages', 'tools') : {};
    const parameters = { ...inner, ...flattened(without(body, 'inputs', 'input', 'model')) };
    return {
      messages: allMessages(list),
      ...(isObject(asked) ? { format: 'chat' as const } : {}),
      ...(isObject(asked) && Array.isArray(asked.tools) ? { tools: asked.tools } : {}),
      parameters,
      jsonRequested: asksForJson(parameters),
    };
  },
  reply(_body, value) {
    const list = unwrapped(value);
    if (isMessageList(list)) return { replies: allMessages(list) };
    // JumpStart's older chat models: [{"generation": {"role": "assistant", "content": …}}]
    const generations = (Array.isArray(value) ? value : [value]).map((item) =>
      isObject(item) ? item.generation : undefined,
    );
    return isMessageList(generations) ? { replies: allMessages(generations) } : undefined;
  },
};

/** Names of the rows in MLflow's scoring form, which may be chats: `{"instances": [{"messages": […]}, …]}`. */
const ROW_NAMES = ['inputs', 'input', 'instances', 'dataframe_records'];

type Chat = JsonObject & { messages: JsonObject[] };

const isChats = (value: unknown): value is Chat[] =>
  Array.isArray(value) && value.length > 0 && value.every((item) => isObject(item) && isMessageList(item.messages));

/** Several chats are independent prompts. Each is shown as one message, with the roles of its messages where it has several. */
function chatsOf(chats: Chat[], others: JsonObject): ReadPrompt {
  const [first] = chats as [Chat];
  const parameters = { ...without(first, 'messages', 'tools', 'model'), ...flattened(without(others, 'model')) };
  const tools = Array.isArray(first.tools) ? { tools: first.tools } : {};
  const asked = { ...tools, parameters, jsonRequested: asksForJson(parameters), format: 'chat' as const };
  if (chats.length === 1) return { ...asked, messages: allMessages(first.messages) };
  const prompts = chats.map(({ messages }) => transcript(allMessages(messages)));
  return { ...asked, messages: userMessages(prompts), batch: prompts };
}

function transcript(messages: ChatMessage[]): string {
  const texts = messages.map(({ role, content, tool_calls: calls }) => {
    const text = typeof content === 'string' ? content : (toJson(content ?? calls) ?? '');
    return messages.length === 1 ? text : `${role}: ${text}`;
  });
  return texts.join('\n\n');
}

/** Returns the conversation of a batch of one: `[[{role, …}]]`. */
const unwrapped = (value: unknown): unknown =>
  Array.isArray(value) && value.length === 1 && Array.isArray(value[0]) ? value[0] : value;
