/**
 * Reads texts under the usual names, as custom servers, Triton, SGLang and llama.cpp use them, and lists of messages.
 */

import NAMES from '../../field-names.json' with { type: 'json' };
import { isObject, type JsonObject } from '../../json.ts';
import { saysWords } from '../../prose.ts';
import {
  allMessages,
  assistantMessages,
  batchOf,
  flattened,
  isMessageList,
  promptsOf,
  userMessages,
} from '../messages.ts';
import { fieldsOf, objectsIn, type WireFormat, without } from '../wire-format.ts';

/**
 * Names of an envelope's content. Next to one of them, `message` is only a word such as “ok”, even if the content has
 * no text.
 */
const ENVELOPE_NAMES = ['data', 'results', 'payload', 'body', ...NAMES.replies.filter((name) => name !== 'message')];
/** Returns the text of a message, which is the whole answer of LangChain's servers. */
const contentIn = (value: unknown): unknown =>
  isObject(value) && typeof value.content === 'string' ? value.content : value;

/** Returns the text, or the list of texts, under the first name that has text. */
function textUnder(value: unknown, names: readonly string[]): { name: string; texts: string[] } | undefined {
  if (!isObject(value)) return undefined;
  for (const name of names) {
    const given = value[name];
    const field = Array.isArray(given) ? given.map(contentIn) : contentIn(given);
    if (typeof field === 'string' || (Array.isArray(field) && typeof field[0] === 'string')) {
      const texts = promptsOf(field);
      if (texts !== undefined) return { name, texts };
    }
  }
  return undefined;
}

/** Joins texts under the caller's own names to one text, if any of them has words. */
function labelled(fields: JsonObject): { name: string; texts: string[] } | undefined {
  const texts = Object.entries(fields).filter((field): field is [string, string] => typeof field[1] === 'string');
  if (!texts.some(([, text]) => saysWords(text))) return undefined;
  const named = texts.map(([name, text]) => (texts.length === 1 || /^\d+$/.test(name) ? text : `${name}: ${text}`));
  return { name: texts.map(([name]) => name).join(' '), texts: [named.join('\n')] };
}

/**
 * Reads a text under one of the usual names, as custom servers, Triton, SGLang and llama.cpp use them. A text on one
 * side only is not enough evidence of a conversation.
 */
export const genericText: WireFormat = {
  name: 'generic-text',
  format: 'text-generation',
  request(body, value) {
    const outer = NAMES.wrappers.find((name) => isObject(body[name]));
    const fields = outer === undefined ? body : { ...without(body, outer), ...fieldsOf(body[outer]) };
    const found =
      typeof value === 'string'
        ? { name: '', texts: [value] }
        : (textUnder(fields, [...NAMES.asking, ...NAMES.asked]) ?? labelled(fieldsOf(body[outer ?? ''])));
    if (found === undefined) return undefined;
    return {
      messages: userMessages(found.texts),
      parameters: flattened(without(fields, ...found.name.split(' '), 'model')),
      ...batchOf(found.texts),
      asks: NAMES.asking.includes(found.name),
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
        ? NAMES.replies.filter((name) => name !== 'message')
        : NAMES.replies;
    const texts = typeof single === 'string' ? [single] : isTexts ? single : textUnder(single, names)?.texts;
    return texts && { replies: assistantMessages(texts), reasons: [isObject(single) ? reasonOf(single) : undefined] };
  },
  streamsSeveral: true,
  /** Assembles events that each have a part of the text under the same name. The last event may have no text. */
  assemble(events) {
    const name = NAMES.pieces.find((candidate) => typeof events[0]?.[candidate] === 'string');
    if (name === undefined) return undefined;
    const pieces = events.filter((event) => typeof event[name] === 'string' && Object.keys(event).length <= MAX_FIELDS);
    if (pieces.length < events.length - 1) return undefined;
    const last = events.at(-1) as JsonObject;
    // In earlier events these fields are null, false or missing.
    const tells = events.some((event) => NAMES.ends.some((end) => end in event));
    const ended = tells ? NAMES.ends.some((end) => last[end] != null && last[end] !== false) : undefined;
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
};

/** Returns the finish reason under the usual name, or under the names of SGLang and llama.cpp. */
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
    const asked = isObject(value) ? (body.inputs ?? body.input) : value;
    const list = isObject(asked) && Array.isArray(asked.messages) ? asked.messages : unwrapped(asked);
    if (!isMessageList(list)) return undefined;
    const inner = isObject(asked) ? without(asked, 'messages', 'tools') : {};
    return {
      messages: allMessages(list),
      asks: true,
      ...(isObject(asked) ? { format: 'chat' as const } : {}),
      ...(isObject(asked) && Array.isArray(asked.tools) ? { tools: asked.tools } : {}),
      parameters: { ...inner, ...flattened(without(body, 'inputs', 'input', 'model')) },
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

/** Returns the conversation in a batch with a single conversation: `[[{role, …}]]`. */
const unwrapped = (value: unknown): unknown =>
  Array.isArray(value) && value.length === 1 && Array.isArray(value[0]) ? value[0] : value;
