/** Recognizes replies that say nothing: no text, tool call, value or bytes. */
import { isObject, type JsonObject } from '../../captures/json.ts';
import type { ChatMessage } from '../../captures/types.ts';

/** Fields of a message, or of an item of an envelope's list, that are there without any content. */
const FRAME: ReadonlySet<string> = new Set(['role', 'type', 'id', 'index', 'object', 'finish_reason', 'finishReason']);
const NO_FRAME: ReadonlySet<string> = new Set();

/** Whether a text has only spaces and invisible characters. */
export const isBlankText = (text: string): boolean => !/[^\s\p{Cc}\p{Cf}]/u.test(text);

/** Whether a value contains no number, no boolean, and no text that anybody sees. */
function isHollow(value: unknown, frame: ReadonlySet<string>): boolean {
  if (typeof value === 'string') return isBlankText(value);
  if (Array.isArray(value)) return value.every((item) => isHollow(item, frame));
  if (isObject(value)) return Object.entries(value).every(([name, field]) => frame.has(name) || isHollow(field, frame));
  return value === null || value === undefined;
}

/** Returns the list with the whole content of OpenAI's or Gemini's envelope. The fields beside it are no content. */
const contentList = ({ choices, candidates, object, data }: JsonObject): unknown[] | undefined =>
  [choices, candidates, object === 'list' ? data : undefined].find((list) => Array.isArray(list));

/** Whether a document in no known form says nothing, as `[]`, `{}`, `null` and `{"choices": []}` do. */
export function isBlankValue(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isBlankValue);
  const list = isObject(value) ? contentList(value) : undefined;
  return list === undefined ? isHollow(value, NO_FRAME) : isHollow(list, FRAME);
}

/** Whether a message has neither text (spaces do not count), reasoning, a tool call, nor media. */
export const isBlankMessage = (message: ChatMessage): boolean => isHollow(message, FRAME);
