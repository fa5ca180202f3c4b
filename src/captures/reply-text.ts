/** Extracts the texts of a capture for code scorers: the request and the reply as plain strings. */
import { isObject } from './json.ts';
import { containsProse } from './prose.ts';
import type { Capture, ChatMessage, Payload } from './types.ts';
import { textIn, textsOf } from './wire/wire-format.ts';

/** Formats whose payload may have texts even if no conversation was found. */
const DOCUMENT_FORMATS = new Set(['json', 'jsonlines']);

/** Returns the text of a message: a string, or the text parts of a list. Images and audio have no text. */
export function messageText({ content }: ChatMessage): string {
  if (!Array.isArray(content)) return textIn(content);
  const texts = content.map((part) => (isObject(part) ? part.text : part));
  return textsOf(texts.filter(Boolean)).join('\n');
}

/** Returns how many independent prompts a call carried: one for each message of a batch. */
export const promptCount = ({ conversation, inferenceCount = 1 }: Capture): number =>
  conversation === undefined ? 0 : inferenceCount;

/** Whether a payload is kept as captured, so that its content is unknown. */
export const isUndecoded = (payload: Payload | undefined): boolean => payload?.kind === 'raw';

/** The texts of a capture, or the reason why it has none. */
export type Texts = { texts: string[] } | { notJudgeable: string };

const hasWords = ({ conversation, format }: Capture): boolean =>
  conversation !== undefined || format === 'text' || format === 'error';

/**
 * Whether an exchange has texts. A document in an unknown form has texts if the reply has prose, or, without a reply,
 * the request.
 */
const isText = (capture: Capture): boolean =>
  !capture.wordless &&
  (hasWords(capture) ||
    (DOCUMENT_FORMATS.has(capture.format) && containsProse((capture.response ?? capture.request)?.value)));

/**
 * Returns the texts of a side: those of its messages, or else the text of its payload.
 *
 * @param absent the reason if the side was not captured, or is empty
 */
function sideTexts(capture: Capture, payload: Payload | undefined, absent: string, messages?: string[]): Texts {
  if (payload === undefined || payload.kind === 'empty') return { notJudgeable: absent };
  if (isUndecoded(payload)) return { notJudgeable: 'notDecoded' };
  const texts = messages ?? textsOf([payload.text]);
  return isText(capture) && texts.length > 0 ? { texts } : { notJudgeable: 'notText' };
}

/**
 * Returns one text per choice of the reply, and no text for an error reply. A reply with only tool calls has one empty
 * text, because the model did answer, but without words.
 *
 * @example
 *     const found = replyTexts(capture);
 *     if ('texts' in found) search(found.texts);
 */
export function replyTexts(capture: Capture): Texts {
  if (capture.error !== undefined) return { notJudgeable: 'errorReply' };
  const { replies = [] } = capture.conversation ?? {};
  // A chat may be answered with JSON of unknown form.
  const said = replies.length > 0 ? replies.map(messageText) : undefined;
  return sideTexts(capture, capture.response, 'noResponse', said);
}

/** Returns the texts of a reply in words. A JSON document in an unknown form has texts, such as labels, and no words. */
export const replyWords = (capture: Capture): Texts =>
  hasWords(capture) ? replyTexts(capture) : { notJudgeable: 'notText' };

/** Returns the texts of the request: every message of the conversation, or the text of the payload. */
export function requestTexts(capture: Capture): Texts {
  const messages = capture.conversation?.messages.map(messageText).filter((text) => text !== '');
  return sideTexts(capture, capture.request, 'noRequest', messages);
}

/** Returns the user's last message, or all texts of a request without one, and of a call with several prompts. */
export function lastUserTexts(capture: Capture): Texts {
  if (promptCount(capture) > 1) return requestTexts(capture);
  const last = capture.conversation?.messages.findLast((message) => message.role === 'user');
  const text = last === undefined ? '' : messageText(last);
  return text === '' ? requestTexts(capture) : { texts: [text] };
}
