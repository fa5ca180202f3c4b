/** Lists the wire formats and reads a document with the first one that recognizes it. */
import { firstOf } from '../first-of.ts';
import { asText, isObject, type JsonObject } from '../json.ts';
import { transcript, withBeside } from './beside.ts';
import { asksForJson, userMessages } from './messages.ts';
import { spokenReply } from './model-text.ts';
import { anthropicMessages } from './vendors/anthropic-messages.ts';
import { ai21, bedrockConverse, bedrockText } from './vendors/bedrock.ts';
import { cohere } from './vendors/cohere.ts';
import { gemini } from './vendors/gemini.ts';
import { genericText, messageList } from './vendors/generic.ts';
import { questionAnswering, tgi } from './vendors/hugging-face.ts';
import { ollama } from './vendors/ollama.ts';
import { openAiChat, openAiCompletion } from './vendors/openai-completions.ts';
import { openAiResponses } from './vendors/openai-responses.ts';
import {
  type Assembly,
  allText,
  fieldsOf,
  textsOf,
  type WireFormat,
  type WirePrompt,
  type WireReply,
  without,
} from './wire-format.ts';

/** The formats in the order in which they are tried: formats with unmistakable documents come first. */
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
  questionAnswering,
];
/** All formats, and texts under the usual names of custom servers, which may also have another meaning. */
const ALL_FORMATS = [...FORMATS, genericText];

function promptOf(value: unknown, format: WireFormat | undefined): WirePrompt | undefined {
  const prompt = format?.request?.(fieldsOf(value), value);
  if (prompt === undefined || format === undefined) return undefined;
  const jsonRequested = asksForJson(prompt.parameters);
  return { wire: format.name, format: format.format, jsonRequested, ...withBeside(prompt) };
}

function replyOf(value: unknown, format: WireFormat): WireReply | undefined {
  const reply = format.reply?.(fieldsOf(value), value);
  if (reply === undefined) return undefined;
  return {
    wire: format.name,
    format: reply.format ?? format.format,
    replies: reply.replies.map((message, index) => spokenReply(message, asText(reply.reasons?.[index]))),
    finishReasons: textsOf(reply.reasons ?? []),
  };
}

/**
 * Reads a reply, including the reply to one request in MLflow's scoring form: `{"predictions": [{"choices": […]}]}`.
 */
export function readWireReply(value: unknown): WireReply | undefined {
  const [scored, ...others] = [fieldsOf(value).predictions].flat();
  const documents = isObject(scored) && others.length === 0 ? [value, scored] : [value];
  return firstOf(documents, (document) => firstOf(FORMATS, (format) => replyOf(document, format)));
}

/** @param answeredAs wire format of the reply. It decides where a request could be of two vendors. */
export function readWirePrompt(value: unknown, answeredAs: string | undefined): WirePrompt | undefined {
  // Requests that also have `messages`, as OpenAI's do, but differ otherwise.
  const marked = FORMATS.find((format) => format.recognises?.(fieldsOf(value)));
  if (marked !== undefined) return promptOf(value, marked);
  const same = FORMATS.find((format) => format.name === answeredAs);
  return promptOf(value, same) ?? firstOf(FORMATS, (format) => promptOf(value, format));
}

/** Reads a text under the usual names of custom servers. Use the result only when the other side is text as well. */
export const readGenericPrompt = (value: unknown): WirePrompt | undefined =>
  promptOf(value, genericText) ?? promptsIn(Array.isArray(value) ? value : fieldsOf(value).inputs);

/** Reads a list, lines or rows of requests that each have one prompt. They are independent of each other. */
export function promptsIn(list: unknown): WirePrompt | undefined {
  if (!Array.isArray(list)) return undefined;
  const read = (item: unknown): WirePrompt | undefined =>
    readWirePrompt(item, undefined) ?? promptOf(isObject(item) ? { inputs: item } : item, genericText);
  const prompts = list.flatMap((item) => read(item) ?? []);
  const [first] = prompts;
  if (list.length === 1) return first;
  if (first === undefined || prompts.length < list.length || prompts.some((prompt) => prompt.batch)) return undefined;
  const batch = prompts.map((prompt) => transcript(prompt.messages));
  return { ...first, messages: userMessages(batch), batch, asks: prompts.every(isAsking) };
}

/** Whether a request asks for an answer in words, whatever the form of the answer. */
export const asksForTalk = ({ format }: Pick<WirePrompt, 'format'>): boolean =>
  format === 'chat' || format === 'messages' || format === 'completion';

/** Whether a single word may answer a request. */
export const isAsking = (prompt: WirePrompt): boolean => prompt.asks === true || asksForTalk(prompt);

export const readGenericReply = (value: unknown): WireReply | undefined => replyOf(value, genericText);

const newIn = (event: JsonObject, repeats: readonly string[] = []): JsonObject =>
  repeats.some((name) => name in event) ? without(event, ...repeats) : event;

/**
 * Reads the content that an event of a stream adds, bare text included: the reply that the event makes by itself.
 *
 * @returns also whether the event has a piece of a tool call; `undefined` for an unknown form. Never throws
 */
export function readDelta(event: unknown) {
  if (typeof event === 'string') return { output: event, reasoning: '', calls: false };
  if (!isObject(event)) return undefined;
  const value = firstOf(ALL_FORMATS, ({ assemble, repeats }) => assemble?.([newIn(event, repeats)])?.value);
  if (value === undefined) return undefined;
  const { replies = [] } = firstOf(ALL_FORMATS, ({ reply }) => reply?.(value, value)) ?? {};
  const calls = replies.flatMap((reply) => reply.tool_calls ?? []).map((call) => call.function);
  return {
    output: allText(replies.map(({ content }) => content)),
    reasoning: allText(replies.flatMap(({ reasoning, reasoning_content: thoughts }) => [reasoning, thoughts])),
    // A piece without arguments has an empty object instead.
    calls: calls.some(({ name, arguments: input }) => name !== '' || !['', '{}'].includes(input)),
  };
}

/** The source of a stream's events: server-sent events, JSON Lines, or a JSON list. */
export type StreamSource = 'events' | 'lines' | 'list';
/** In lines, a text under a usual name may be a row of data. In a list, the items may be unrelated. */
const STREAMED = { events: ALL_FORMATS, lines: FORMATS, list: FORMATS.filter((format) => format.listsEvents) };

/** Assembles the events of a stream to a reply. */
export const assembleEvents = (events: JsonObject[], source: StreamSource): Assembly | undefined =>
  firstOf(STREAMED[source], ({ streamsSeveral, assemble }) =>
    streamsSeveral && events.length < 2 ? undefined : assemble?.(events),
  );

/** Reads an error whose form only one vendor uses. */
export const readError = (body: JsonObject): { message: unknown; type?: string } | undefined =>
  firstOf(FORMATS, (format) => format.error?.(body));
