/** The texts of a capture that code scorers look at: what was asked and what was answered, as plain strings. */
import type { Capture, ChatMessage } from '../../../formats/types.ts';

/** Formats whose payload is itself a text, where no conversation was found in it. */
const TEXT_PAYLOAD_FORMATS = new Set(['text', 'json', 'jsonlines', 'error']);

/** Scripts written without spaces between words: there a run of letters is many words. */
export const UNSPACED_SCRIPT =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** The text of a message: a string, or the text parts of a multi-part list; images and audio have none. */
export function messageText(message: ChatMessage): string {
  if (typeof message.content === 'string') return message.content;
  if (!Array.isArray(message.content)) return '';
  return message.content
    .map((part) => {
      if (typeof part === 'string') return part;
      if (part === null || typeof part !== 'object') return '';
      const text = (part as { text?: unknown }).text;
      return typeof text === 'string' ? text : '';
    })
    .filter((text) => text !== '')
    .join('\n');
}

/** Texts, or the name of the reason why there are none. */
export type Texts = { texts: string[] } | { notJudgeable: string };

/**
 * One text per choice of the reply. An error reply's body counts as its text. A reply of tool calls alone has one
 * empty text: the model did answer, without words.
 */
export function replyTexts(capture: Capture): Texts {
  if (capture.error !== undefined) {
    const body = capture.response?.text ?? capture.error.message;
    return { texts: [body] };
  }
  if (capture.response === undefined || capture.response.kind === 'empty') return { notJudgeable: 'noResponse' };
  if (capture.conversation !== undefined) {
    const { replies } = capture.conversation;
    return replies.length === 0 ? { notJudgeable: 'noResponse' } : { texts: replies.map(messageText) };
  }
  if (TEXT_PAYLOAD_FORMATS.has(capture.format) && capture.response.text !== undefined) {
    return { texts: [capture.response.text] };
  }
  return { notJudgeable: 'notText' };
}

/** All that the request says: every message of the conversation, or the text of the payload. */
export function requestTexts(capture: Capture): Texts {
  if (capture.request === undefined || capture.request.kind === 'empty') return { notJudgeable: 'noRequest' };
  if (capture.conversation !== undefined) {
    const texts = capture.conversation.messages.map(messageText).filter((text) => text !== '');
    return texts.length === 0 ? { notJudgeable: 'notText' } : { texts };
  }
  if (TEXT_PAYLOAD_FORMATS.has(capture.format) && capture.request.text !== undefined) {
    return { texts: [capture.request.text] };
  }
  return { notJudgeable: 'notText' };
}

/** The last thing the user said, else all that the request says. */
export function lastUserTexts(capture: Capture): Texts {
  const last = capture.conversation?.messages.findLast((message) => message.role === 'user');
  const text = last === undefined ? '' : messageText(last);
  return text === '' ? requestTexts(capture) : { texts: [text] };
}
