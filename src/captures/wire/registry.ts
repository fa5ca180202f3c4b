/** Lists the wire formats and reads a document with the first one that recognizes it. */
import { firstOf } from '../../core/values/first-of.ts';
import { asText, isObject, type JsonObject } from '../json.ts';
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
  type Delta,
  fieldsOf,
  textsOf,
  type WireFormat,
  type WirePrompt,
  type WireReply,
} from './wire-format.ts';

/** In the order in which they are tried: formats with unmistakable documents come first. */
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
/** With texts under the usual names of custom servers, which may also be something else. */
const ALL_FORMATS = [...FORMATS, genericText];

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
    replies: reply.replies.map((message, index) => spokenReply(message, asText(reply.reasons?.[index]))),
    finishReasons: textsOf(reply.reasons ?? []),
  };
}

const readDocument = (value: unknown): WireReply | undefined => firstOf(FORMATS, (format) => replyOf(value, format));

export const readWireReply = (value: unknown): WireReply | undefined => readDocument(value) ?? readScored(value);

/**
 * Reads the replies of chat models in MLflow's scoring form: `{"predictions": {"choices": […]}}`, or a list of them. Replies
 * with different numbers of choices cannot be paired with their requests.
 */
function readScored(value: unknown): WireReply | undefined {
  const { predictions } = fieldsOf(value);
  const documents = Array.isArray(predictions) ? predictions : [predictions];
  if (!documents.every((document) => isObject(document) && TOLD_BY.some((name) => name in document))) return undefined;
  const read = documents.map(readDocument);
  const [first] = read;
  if (first === undefined || !read.every((reply) => reply?.replies.length === first.replies.length)) return undefined;
  const all = read as WireReply[];
  return {
    ...first,
    replies: all.flatMap((reply) => reply.replies),
    finishReasons: all.flatMap((reply) => reply.finishReasons),
  };
}

/** Fields that only a chat's or a completion's reply has. Rows with other texts are predictions of a table. */
const TOLD_BY = ['choices', 'content', 'candidates', 'output', 'generated_text'];

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
  promptOf(value, genericText) ?? promptsIn(value);

/** Reads a list, or lines, of requests that each have one prompt. They are independent of each other. */
function promptsIn(list: unknown): WirePrompt | undefined {
  if (!Array.isArray(list) || list.length < 2) return undefined;
  const prompts = list.map((item) => readWirePrompt(item, undefined) ?? promptOf(item, genericText));
  const messages = prompts.flatMap((prompt) => prompt?.messages ?? []);
  const batch = textsOf(messages.map(({ content }) => content));
  const isPaired = batch.length === list.length && prompts.every((prompt) => prompt?.messages.length === 1);
  return isPaired ? ({ ...prompts[0], messages, batch } as WirePrompt) : undefined;
}

export const readGenericReply = (value: unknown): WireReply | undefined => replyOf(value, genericText);

/** Reads the content that an event of a stream adds, bare text included. `undefined` for an unknown form. Never throws. */
export function readDelta(event: unknown): Delta | undefined {
  const delta =
    typeof event === 'string'
      ? { output: event }
      : isObject(event) && firstOf(ALL_FORMATS, (format) => format.delta?.(event));
  return delta ? { output: '', reasoning: '', calls: false, ...delta } : undefined;
}

/** The source of a stream's events: server-sent events, JSON Lines, or a JSON list. */
export type StreamSource = 'events' | 'lines' | 'list';
/** In lines, a text under a usual name may be a row of data; in a list, the items may be unrelated. */
const STREAMED = { events: ALL_FORMATS, lines: FORMATS, list: FORMATS.filter((format) => format.listsEvents) };

/** Assembles the events of a stream to a reply. */
export const assembleEvents = (events: JsonObject[], source: StreamSource): Assembly | undefined =>
  firstOf(STREAMED[source], (format) => format.assemble?.(events));

/** Reads an error whose form only one vendor uses. */
export const readError = (body: JsonObject): { message: unknown; type?: string } | undefined =>
  firstOf(FORMATS, (format) => format.error?.(body));

/** Returns all paths where a token count may be, as lists of names. */
export const usagePaths = (count: keyof NonNullable<WireFormat['usage']>): string[][] =>
  ALL_FORMATS.flatMap((format) => format.usage?.[count] ?? []).map((path) => path.split('.'));
