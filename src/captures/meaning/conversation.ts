/** Builds a conversation from an exchange of text, even if only one side has a known form. */
import { isObject } from '../json.ts';
import { isMediaMark, withoutMedia } from '../media.ts';
import { documentOf, isThere, payloadText } from '../payload/decode-payload.ts';
import { saysWords } from '../prose.ts';
import { messageText } from '../reply-text.ts';
import type { ChatMessage, Inferences, Meaning, Payload } from '../types.ts';
import { unreadIn } from '../wire/beside.ts';
import { spokenReply } from '../wire/model-text.ts';
import { asksForTalk, isAsking, readGenericPrompt, readGenericReply } from '../wire/registry.ts';
import type { WirePrompt, WireReply } from '../wire/wire-format.ts';
import { type Exchange, listInferences } from './inferences.ts';

/** An exchange before it is interpreted as a conversation. */
interface TextExchange extends Exchange {
  /** The request, where its wire format was recognized. */
  prompt: WirePrompt | undefined;
  reply: WireReply | undefined;
}

/** @returns `undefined` when the exchange is not a conversation. */
export function conversationOf(exchange: TextExchange): Meaning | undefined {
  const { response } = exchange;
  const reply = exchange.reply ?? replyTo(exchange);
  const prompt = exchange.prompt ?? promptFor(reply, exchange);
  if (prompt === undefined && reply === undefined) return undefined;
  // The answer of a text classifier, for example, is not a message. A chat with an unreadable answer is still a chat.
  if (prompt !== undefined && reply === undefined && isThere(response) && !asksForTalk(prompt)) return undefined;

  const { messages = [], tools, parameters = {}, jsonRequested = false, batch } = prompt ?? {};
  const { replies: said = [], finishReasons = [] } = reply ?? {};
  const replies = said.map(withoutTextMedia);
  const unread = unreadIn(parameters);
  if (unread.length > 0) exchange.notes.push(`the judge does not read a part of the request: ${unread.join(', ')}`);
  return {
    ...formatsOf({ ...exchange, prompt, reply }),
    ...(replies.length > 0 && isWordless(prompt, reply, replies) ? { wordless: true as const } : {}),
    conversation: {
      messages: messages.map(withoutTextMedia),
      replies,
      ...(tools === undefined ? {} : { tools }),
      parameters,
      jsonRequested,
      finishReasons,
    },
    ...(batch === undefined ? {} : batchInferences(batch.map(withoutMedia), replies, exchange)),
  };
}

const withoutTextMedia = (message: ChatMessage): ChatMessage => {
  const text = typeof message.content === 'string' ? withoutMedia(message.content) : message.content;
  return text === message.content ? message : { ...message, content: text };
};

/**
 * Signs that a bare text asks for an answer: a line that ends with a question mark or a colon, and the marks of a
 * template.
 */
const ASKS = /[?？؟:：]\s*$|<\|\w+\|>|<start_of_turn>|\[\/INST\]|^### /m;

/**
 * Whether no reply has words: all replies are media, or, if the model may not be a chat model, numbers, markup or a
 * label.
 */
function isWordless(prompt: WirePrompt | undefined, reply: WireReply | undefined, replies: ChatMessage[]): boolean {
  const mayBeData = !(prompt && isAsking(prompt)) && !(reply && asksForTalk(reply));
  const { messages = [], batch } = prompt ?? {};
  const asks = (messages.length > 1 && !batch) || messages.some((message) => ASKS.test(messageText(message)));
  return replies.every((message) => {
    const text = messageText(message);
    const isLabel = reply?.wire === 'text' || !/[{}<>=]/.test(text);
    const isData = mayBeData && isLabel && !saysWords(text) && !(asks && /\p{L}/u.test(text));
    return text.trim() !== '' && !message.tool_calls?.length && (isData || isMediaMark(text));
  });
}

/** Note about a document that may contain the reply's words, or other data. */
export const UNKNOWN_FORM = 'the reply’s words are in JSON of no known form; they are not judged';
/** The same note about a table's predictions. */
export const WORDS_IN_ROWS = 'the reply’s words are in a table; they are not judged';

/** Reads a reply to a request for text: words, or text under a usual name. Other forms are not messages. */
function replyTo({ prompt, request, response, notes }: TextExchange): WireReply | undefined {
  if (!isThere(response)) return undefined;
  const asksInText =
    prompt !== undefined || isPlainText(request) || readGenericPrompt(documentOf(request)) !== undefined;
  const plain = (): WireReply => {
    const replies = [spokenReply({ role: 'assistant', content: textOf(response) })];
    return { wire: 'text', format: 'text', replies, finishReasons: [] };
  };
  if (isPlainText(response) && (asksInText || !isThere(request))) return plain();
  const generic = asksInText ? readGenericReply(documentOf(response)) : undefined;
  if (generic !== undefined) return generic;
  if (prompt === undefined || !asksForTalk(prompt)) return undefined;
  if (response.kind === 'csv') return plain();
  if (documentOf(response) !== undefined && !holdsMedia(response.value)) notes.push(UNKNOWN_FORM);
  return undefined;
}

/** Reads a request of unknown form that was answered with text, or plain text without an answer. */
function promptFor(reply: WireReply | undefined, { request, response }: Exchange): WirePrompt | undefined {
  if (!isThere(request) || (reply === undefined && (!isPlainText(request) || isThere(response)))) return undefined;
  const generic = reply && readGenericPrompt(documentOf(request));
  const messages = [{ role: 'user', content: textOf(request) }];
  return generic ?? { wire: 'text', format: 'text', messages, parameters: {}, jsonRequested: false };
}

const isPlainText = (payload: Payload | undefined): payload is Payload => payload?.kind === 'text';

/** Returns the content of a message for a payload. */
const textOf = (payload: Payload): string =>
  payload.kind === 'binary' ? `[${payloadText(payload)}]` : payloadText(payload);

/** Names under which image models answer a prompt. Their pictures are numbers or base64. */
const MEDIA_NAMES = ['generated_image', 'generated_images', 'images', 'image', 'artifacts', 'audio', 'video'];
const holdsMedia = (value: unknown): boolean => isObject(value) && MEDIA_NAMES.some((name) => name in value);

/** The side with the more specific wire format names both formats. */
function formatsOf({ prompt, reply, response }: TextExchange): Pick<Meaning, 'format' | 'wireFormat'> {
  const known = [prompt, reply].filter((side) => side !== undefined && side.wire !== 'text');
  const { wire, format = 'text' } = known.find((side) => side?.wire !== 'generic-text') ?? known[0] ?? {};
  return {
    format: format === 'chat' && response?.kind === 'event-stream' ? 'chat-stream' : format,
    wireFormat: wire,
  };
}

/** See `MAX_ROWS` of tables; a prompt is longer than a row. */
const MAX_BATCH = 1_000;

/** Whether a list has an item for each prompt, and the items have different numbers of replies. */
const isRagged = (value: unknown, each: number): boolean =>
  Array.isArray(value) && value.some((item) => Array.isArray(item) && item.length !== each);

/** Prompts sent together are separate inferences. Servers answer them in order, with the same number of replies each. */
function batchInferences(batch: string[], replies: ChatMessage[], exchange: Exchange): Inferences {
  const { response } = exchange;
  const answered = isThere(response);
  const each = replies.length / batch.length;
  const isEven = Number.isInteger(each) && each >= 1 && !isRagged(documentOf(response), each);
  const predictionAt = (index: number): unknown => {
    const own = isEven ? replies.slice(index * each, (index + 1) * each) : replies.slice(index, index + 1);
    const texts = own.map((reply) => reply.content);
    return texts.length === 1 ? texts[0] : texts;
  };
  const mismatch = answered && !isEven && { inputs: batch.length, outputs: replies.length };
  const call = { ...exchange, count: batch.length, most: MAX_BATCH, what: 'prompts', mismatch };
  return listInferences(call, (index) => ({
    features: { prompt: batch[index] },
    ...(answered && (isEven || index < replies.length) ? { prediction: predictionAt(index) } : {}),
  }));
}
