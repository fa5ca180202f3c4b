/** The wire formats in the order in which they are tried: those that say clearly what they are come first. */
import { isObject, type JsonObject } from '../json.ts';
import { fieldsOf, textsOf } from './messages.ts';
import type { Assembly, Delta, WireFormat, WirePrompt, WireReply } from './types.ts';
import { ai21 } from './vendors/ai21.ts';
import { anthropicMessages } from './vendors/anthropic-messages.ts';
import { bedrockConverse } from './vendors/bedrock-converse.ts';
import { bedrockText } from './vendors/bedrock-text.ts';
import { cohere } from './vendors/cohere.ts';
import { gemini } from './vendors/gemini.ts';
import { genericText } from './vendors/generic-text.ts';
import { messageList } from './vendors/message-list.ts';
import { ollama } from './vendors/ollama.ts';
import { openAiChat } from './vendors/openai-chat.ts';
import { openAiCompletion } from './vendors/openai-completion.ts';
import { openAiResponses } from './vendors/openai-responses.ts';
import { tgi } from './vendors/tgi.ts';

const FORMATS: readonly WireFormat[] = [
  openAiChat,
  openAiCompletion,
  tgi,
  anthropicMessages,
  bedrockConverse,
  messageList,
  openAiResponses,
  gemini,
  ollama,
  cohere,
  bedrockText,
  ai21,
];
/** With texts under the usual names of home-made servers, which may as well be something else. */
const ALL_FORMATS = [...FORMATS, genericText];

/** What the first format that knows the document says of it. */
function first<T>(formats: readonly WireFormat[], read: (format: WireFormat) => T | undefined): T | undefined {
  for (const format of formats) {
    const found = read(format);
    if (found !== undefined) return found;
  }
  return undefined;
}

function promptOf(value: unknown, format: WireFormat | undefined): WirePrompt | undefined {
  const prompt = format?.request?.(fieldsOf(value), value);
  return prompt && ({ wire: format?.name, format: format?.format, jsonRequested: false, ...prompt } as WirePrompt);
}

function replyOf(value: unknown, format: WireFormat): WireReply | undefined {
  const reply = format.reply?.(fieldsOf(value), value);
  if (reply === undefined) return undefined;
  return {
    wire: format.name,
    format: reply.format ?? format.format,
    replies: reply.replies,
    finishReasons: textsOf(reply.reasons ?? []),
  };
}

export const readWireReply = (value: unknown): WireReply | undefined =>
  first(FORMATS, (format) => replyOf(value, format));

/** @param answeredAs wire format of the reply: where a request could be of two vendors, its own server tells. */
export function readWirePrompt(value: unknown, answeredAs: string | undefined): WirePrompt | undefined {
  // Requests that are told from OpenAI's by more than `messages`.
  const marked = FORMATS.find((format) => format.recognises?.(fieldsOf(value)));
  if (marked !== undefined) return promptOf(value, marked);
  const same = FORMATS.find((format) => format.name === answeredAs);
  return promptOf(value, same) ?? first(FORMATS, (format) => promptOf(value, format));
}

/** Texts under the usual names of home-made servers; they count only where the other side is text as well. */
export const readGenericPrompt = (value: unknown): WirePrompt | undefined => promptOf(value, genericText);
export const readGenericReply = (value: unknown): WireReply | undefined => replyOf(value, genericText);

/** What an event of a stream adds, bare text included; `undefined` where it is of no format. Never throws. */
export function readDelta(event: unknown): Delta | undefined {
  if (typeof event === 'string') return { output: event, reasoning: '', calls: false };
  return isObject(event) ? first(ALL_FORMATS, (format) => format.delta?.(event)) : undefined;
}

/** Where the events of a stream come from: of server-sent events, JSON Lines, or a JSON list. */
export type StreamSource = 'events' | 'lines' | 'list';
/** A piece of text under a usual name may as well be a row of data, and the items of a list have nothing to do with each other. */
const STREAMED = { events: ALL_FORMATS, lines: FORMATS, list: FORMATS.filter((format) => format.listsEvents) };

/** The reply that the events of a stream make. */
export const assembleEvents = (events: JsonObject[], source: StreamSource): Assembly | undefined =>
  first(STREAMED[source], (format) => format.assemble?.(events));

/** An error in the form of one vendor alone. */
export const readError = (body: JsonObject): { message: unknown; type?: string } | undefined =>
  first(FORMATS, (format) => format.error?.(body));

/** All places where a count of tokens may be, as lists of names. */
export const usagePaths = (count: keyof NonNullable<WireFormat['usage']>): string[][] =>
  ALL_FORMATS.flatMap((format) => format.usage?.[count] ?? []).map((path) => path.split('.'));
