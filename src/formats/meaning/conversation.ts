/** An exchange of text as a conversation, also where only one side of it is in a known form. */
import { isObject, toJson } from '../json.ts';
import { documentOf, isThere } from '../payload/decode-payload.ts';
import type { Capture, CaptureFormat, ChatMessage, Conversation, Payload } from '../types.ts';
import { readGenericPrompt, readGenericReply } from '../wire/registry.ts';
import type { WirePrompt, WireReply } from '../wire/types.ts';
import { mismatchNote } from './tabular.ts';

const user = (content: string): ChatMessage => ({ role: 'user', content });
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content });

/** What stands for a payload in a conversation whose other side is one: its text, its JSON, or a word about its bytes. */
function textOf(payload: Payload): string {
  if (payload.kind === 'binary') return `[${payload.contentType ?? 'binary'}, ${payload.bytes} bytes]`;
  if (payload.kind === 'text' || payload.kind === 'raw' || payload.kind === 'csv') return payload.text ?? '';
  return toJson(payload.value) ?? payload.text ?? '';
}

const plainPrompt = (payload: Payload, wire: string): WirePrompt => ({
  wire,
  format: 'text',
  messages: [user(textOf(payload))],
  parameters: {},
  jsonRequested: false,
});

const isPlainText = (payload: Payload | undefined): payload is Payload => payload?.kind === 'text';

/** What is known of an exchange before it is taken for a conversation. */
interface TextExchange {
  /** The request, where its wire format was recognised. */
  prompt: WirePrompt | undefined;
  reply: WireReply | undefined;
  request: Payload | undefined;
  response: Payload | undefined;
  /** Id that the inferences' own ids are made of. */
  baseId: string | undefined;
  /** Collects what a reader should know. */
  notes: string[];
}

type ConversationFacts = Pick<
  Capture,
  'format' | 'wireFormat' | 'conversation' | 'inferences' | 'inferenceCount' | 'inferenceMismatch'
>;

/** @returns `undefined` when the exchange is no conversation. */
export function conversationOf(exchange: TextExchange): ConversationFacts | undefined {
  const { request, response, baseId, notes } = exchange;
  const reply = exchange.reply ?? replyTo(exchange.prompt, request, response, notes);
  const prompt = exchange.prompt ?? promptFor(reply, request, response);
  if (prompt === undefined && reply === undefined) return undefined;
  // Text that is asked of a classifier, say: its answer is no talk. A chat is one, also when its answer is unreadable.
  if (prompt !== undefined && reply === undefined && isThere(response) && !asksForTalk(prompt)) return undefined;

  const replies = reply?.replies ?? [];
  const conversation: Conversation = {
    messages: prompt?.messages ?? [],
    replies,
    ...(prompt?.tools === undefined ? {} : { tools: prompt.tools }),
    parameters: prompt?.parameters ?? {},
    jsonRequested: prompt?.jsonRequested ?? false,
    finishReasons: reply?.finishReasons ?? [],
  };
  const wireFormat = wireOf(prompt, reply);
  const batch = prompt?.batch;
  return {
    format: formatOf(prompt, reply, response),
    wireFormat,
    conversation,
    ...(batch === undefined ? {} : batchInferences(batch, replies, baseId, isThere(response), notes)),
  };
}

/** A reply of unknown shape to a request for text. */
function replyTo(
  prompt: WirePrompt | undefined,
  request: Payload | undefined,
  response: Payload | undefined,
  notes: string[],
): WireReply | undefined {
  if (!isThere(response)) return undefined;
  const asksWithWords =
    prompt !== undefined || isPlainText(request) || readGenericPrompt(documentOf(request)) !== undefined;
  const reply = (content: string): WireReply => ({
    wire: 'text',
    format: 'text',
    replies: [assistant(content)],
    finishReasons: [],
  });
  if (isPlainText(response) && (asksWithWords || !isThere(request) || isPlainText(request)))
    return reply(textOf(response));
  const generic = asksWithWords ? readGenericReply(documentOf(response)) : undefined;
  if (generic !== undefined) return generic;
  if (prompt === undefined || !asksForTalk(prompt) || response.kind === 'raw') return undefined;
  if (response.kind === 'binary' || response.kind === 'csv') return reply(textOf(response));
  if (holdsMedia(response.value)) return undefined;
  notes.push('the reply has no known form; its JSON stands as the assistant’s message');
  return reply(textOf(response));
}

/** Whether a request is for an answer in words, whatever the answer looks like. */
const asksForTalk = ({ format }: WirePrompt): boolean =>
  format === 'chat' || format === 'messages' || format === 'completion';

/** Names under which image models answer a prompt; their pictures are numbers or base64. */
const MEDIA_NAMES = ['generated_image', 'generated_images', 'images', 'image', 'artifacts', 'audio', 'video'];
const holdsMedia = (value: unknown): boolean => isObject(value) && MEDIA_NAMES.some((name) => name in value);

/** A request of unknown shape that was answered with text, or plain text by itself. */
function promptFor(
  reply: WireReply | undefined,
  request: Payload | undefined,
  response: Payload | undefined,
): WirePrompt | undefined {
  if (!isThere(request)) return undefined;
  if (reply === undefined) return isPlainText(request) && !isThere(response) ? plainPrompt(request, 'text') : undefined;
  const generic = readGenericPrompt(documentOf(request));
  return generic ?? plainPrompt(request, 'text');
}

/** The format's name comes from the side that is sure of it. */
function formatOf(
  prompt: WirePrompt | undefined,
  reply: WireReply | undefined,
  response: Payload | undefined,
): CaptureFormat {
  const known = [prompt, reply].filter(
    (side) => side !== undefined && side.wire !== 'text' && side.wire !== 'generic-text',
  );
  const format =
    known[0]?.format ?? [prompt, reply].find((side) => side !== undefined && side.wire !== 'text')?.format ?? 'text';
  return format === 'chat' && response?.kind === 'event-stream' ? 'chat-stream' : format;
}

function wireOf(prompt: WirePrompt | undefined, reply: WireReply | undefined): string | undefined {
  const names = [prompt?.wire, reply?.wire].filter((wire) => wire !== undefined && wire !== 'text');
  return names.find((wire) => wire !== 'generic-text') ?? names[0];
}

/** Prompts sent together are inferences of their own; servers answer them in order, with the same number for each. */
function batchInferences(
  batch: string[],
  replies: ChatMessage[],
  baseId: string | undefined,
  answered: boolean,
  notes: string[],
): Pick<Capture, 'inferences' | 'inferenceCount' | 'inferenceMismatch'> {
  const each = replies.length / batch.length;
  const isEven = Number.isInteger(each) && each >= 1;
  const predictionOf = (index: number): unknown => {
    const own = isEven ? replies.slice(index * each, (index + 1) * each) : replies.slice(index, index + 1);
    const texts = own.map((reply) => reply.content);
    return texts.length === 1 ? texts[0] : texts;
  };
  const inferences = batch.slice(0, MAX_BATCH).map((prompt, index) => ({
    inferenceId: `${baseId ?? ''}_${index}`,
    index,
    features: { prompt },
    ...(answered && (isEven || index < replies.length) ? { prediction: predictionOf(index) } : {}),
  }));
  if (batch.length > MAX_BATCH)
    notes.push(`${batch.length} prompts in one call: the first ${MAX_BATCH} have a span each`);
  const isMismatch = answered && !isEven;
  if (isMismatch) notes.push(mismatchNote(batch.length, replies.length));
  return {
    inferences,
    inferenceCount: batch.length,
    ...(isMismatch ? { inferenceMismatch: { inputs: batch.length, outputs: replies.length } } : {}),
  };
}

/** As for tables, see `MAX_INFERENCES`; a prompt is longer than a row. */
const MAX_BATCH = 1_000;
