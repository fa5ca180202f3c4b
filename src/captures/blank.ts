/** Recognizes empty replies: no text, tool call, value or bytes. The rules are the same for captures and replays. */
import { knownOfContent } from './content.ts';
import { failureOf } from './failure.ts';
import { isObject, type JsonObject } from './json.ts';
import type { Capture, ChatMessage } from './types.ts';

/** Fields of a message, or of an item of an envelope's list, that are there without any content. */
const FRAME: ReadonlySet<string> = new Set(['role', 'type', 'id', 'index', 'object', 'finish_reason', 'finishReason']);
const NO_FRAME: ReadonlySet<string> = new Set();

/** Whether a text has only spaces and invisible characters. */
export const isBlankText = (text: string): boolean => !/[^\s\p{Cc}\p{Cf}]/u.test(text);

/** Whether a value contains no number, no boolean, and no visible text. */
function isHollow(value: unknown, frame: ReadonlySet<string>): boolean {
  if (typeof value === 'string') return isBlankText(value);
  if (Array.isArray(value)) return value.every((item) => isHollow(item, frame));
  if (isObject(value)) return Object.entries(value).every(([name, field]) => frame.has(name) || isHollow(field, frame));
  return value === null || value === undefined;
}

/**
 * Returns the list with the whole content of OpenAI's or Gemini's envelope. The fields next to the list are not
 * content.
 */
const contentList = ({ choices, candidates, object, data }: JsonObject): unknown[] | undefined =>
  [choices, candidates, object === 'list' ? data : undefined].find((list) => Array.isArray(list));

/** Whether a document in an unknown form is empty, such as `[]`, `{}`, `null` and `{"choices": []}`. */
export function isBlankValue(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isBlankValue);
  const list = isObject(value) ? contentList(value) : undefined;
  return list === undefined ? isHollow(value, NO_FRAME) : isHollow(list, FRAME);
}

/** Whether a message has neither text (spaces do not count), reasoning, a tool call, nor media. */
export const isBlankMessage = (message: ChatMessage): boolean => isHollow(message, FRAME);

/** The form of a reply, and whether it is empty. */
interface Said {
  form: 'words' | 'values';
  isEmpty: boolean;
}

/**
 * Returns whether a captured reply is empty: words in a conversation or a text, or JSON in an unknown form, where `[]`
 * may be an answer. Tool calls and media count as content.
 *
 * @returns `undefined` for an error, a call that failed or that its caller left, a reply that was not captured or not
 *   decoded, and a table, a vector or bytes
 */
export const saidIn = (capture: Capture): Said | undefined => knownOfContent(capture, 'said', () => said(capture));

function said(capture: Capture): Said | undefined {
  const { conversation, format, response, call } = capture;
  const isWhole = failureOf(capture) === undefined && (call === undefined || call.ended === 'whole');
  if (!isWhole || response === undefined || response.kind === 'raw') return undefined;
  const { kind, text = '', value } = response;
  const { replies = [] } = conversation ?? {};
  const words = (isEmpty: boolean): Said => ({ form: 'words', isEmpty });
  if (conversation !== undefined || format === 'text') {
    if (replies.length > 0) return words(replies.every(isBlankMessage));
    if (kind === 'empty') return words(true);
    if (kind === 'text') return words(isBlankText(text));
    // A chat that is answered in an unknown form.
    return kind === 'binary' ? undefined : words(isBlankValue(value));
  }
  return format === 'json' || format === 'jsonlines' ? { form: 'values', isEmpty: isBlankValue(value) } : undefined;
}

/** Whether the reply should be words but is empty. Such a reply is counted, and no scorer is asked about it. */
export const isEmptyReply = (capture: Capture): boolean => {
  const { form, isEmpty = false } = saidIn(capture) ?? {};
  return form === 'words' && isEmpty;
};
