/** What a capture's two payloads mean together: a conversation, inferences, an embedding, an error, or just documents. */
import { asksWithText, summarizeEmbedding } from './embedding.ts';
import { errorReply } from './error-reply.ts';
import { isObject, toJson } from './json.ts';
import { tabularInferences } from './tabular.ts';
import type { Capture, CaptureFormat, ChatMessage, Conversation, DecodeOptions, Payload } from './types.ts';
import { usageOf } from './usage.ts';
import { readGenericPrompt, readGenericReply, readPrompt, readReply } from './wire/registry.ts';
import type { Prompt, Reply } from './wire/types.ts';

export type Interpretation = Pick<
  Capture,
  | 'format'
  | 'wireFormat'
  | 'streamed'
  | 'response'
  | 'conversation'
  | 'inferences'
  | 'inferenceCount'
  | 'inferenceMismatch'
  | 'error'
  | 'usage'
  | 'model'
>;

const isThere = (payload: Payload | undefined): payload is Payload => payload !== undefined && payload.kind !== 'empty';
const isDocument = (payload: Payload | undefined): boolean =>
  payload !== undefined && (payload.kind === 'json' || payload.kind === 'event-stream' || payload.kind === 'jsonlines');
const documentOf = (payload: Payload | undefined): unknown => (isDocument(payload) ? payload?.value : undefined);

/**
 * @param baseId id that the inferences' own ids are made of.
 * @param notes collects what a reader should know.
 */
export function interpret(
  request: Payload | undefined,
  response: Payload | undefined,
  baseId: string | undefined,
  options: DecodeOptions,
  notes: string[],
): Interpretation {
  const error = errorReply(response);
  const meaning = error === undefined ? meaningOf(request, response, baseId, options, notes) : undefined;
  const asked = meaning ?? meaningOf(request, undefined, baseId, options, notes);
  const usage = usageOf(documentOf(response));
  const model = modelOf(documentOf(response)) ?? modelOf(documentOf(request));
  return {
    ...asked,
    ...(error === undefined ? {} : { format: 'error' as const, error }),
    response: meaning?.response ?? response,
    ...(response?.kind === 'event-stream' ? { streamed: true } : {}),
    ...(usage === undefined ? {} : { usage }),
    ...(model === undefined ? {} : { model }),
  };
}

function meaningOf(
  request: Payload | undefined,
  response: Payload | undefined,
  baseId: string | undefined,
  options: DecodeOptions,
  notes: string[],
): Interpretation {
  if (!isThere(request) && !isThere(response)) return { format: 'empty' };
  const reply = readReply(documentOf(response));
  const prompt = readPrompt(documentOf(request), reply?.wire);
  const embedding = reply === undefined ? embeddingOf(request, response) : undefined;
  if (embedding !== undefined) return embedding;
  // A request for text with an answer that is none of the known ones is looked at below.
  if (reply === undefined && (prompt === undefined || prompt.format === 'text-generation')) {
    const table = tabularInferences(request, response, baseId, options, notes);
    if (table !== undefined) {
      return {
        format: tabularFormat(request, response),
        inferences: table.inferences,
        inferenceCount: table.count,
        ...(table.mismatch === undefined ? {} : { inferenceMismatch: table.mismatch }),
      };
    }
  }
  return conversationOf(prompt, reply, request, response, baseId, notes) ?? { format: plainFormat(request, response) };
}

function embeddingOf(request: Payload | undefined, response: Payload | undefined): Interpretation | undefined {
  const value = documentOf(response);
  if (value === undefined) return undefined;
  // Bare numbers are a vector only in reply to text; an object says by its names what it holds.
  if (Array.isArray(value) && !value.every(isObject) && isThere(request)) {
    const asked = request.kind === 'text' ? request.value : documentOf(request);
    if (!asksWithText(asked)) return undefined;
  }
  const summary = summarizeEmbedding(value);
  if (summary === undefined) return undefined;
  return { format: 'embedding', response: { ...(response as Payload), value: summary } };
}

const tabularFormat = (request: Payload | undefined, response: Payload | undefined): CaptureFormat => {
  const kinds = [request?.kind, response?.kind];
  if (request?.kind === 'csv' || (!isThere(request) && response?.kind === 'csv')) return 'tabular-csv';
  if (kinds.includes('jsonlines')) return 'jsonlines';
  return kinds.includes('csv') && !isThere(request) ? 'tabular-csv' : 'tabular-json';
};

/** The format of an exchange that is neither a conversation nor a table. */
function plainFormat(request: Payload | undefined, response: Payload | undefined): CaptureFormat {
  const kinds = [request, response].filter(isThere).map((payload) => payload.kind);
  if (kinds.includes('binary')) return 'binary';
  if (kinds.includes('jsonlines')) return 'jsonlines';
  if (kinds.some((kind) => kind === 'json' || kind === 'event-stream' || kind === 'csv')) return 'json';
  return 'text';
}

// -------------------------------------------------------------------------------------------------- conversations

const user = (content: string): ChatMessage => ({ role: 'user', content });
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content });

/** What stands for a payload in a conversation whose other side is one: its text, its JSON, or a word about its bytes. */
function textOf(payload: Payload): string {
  if (payload.kind === 'binary') return `[${payload.contentType ?? 'binary'}, ${payload.bytes} bytes]`;
  if (payload.kind === 'text' || payload.kind === 'raw' || payload.kind === 'csv') return payload.text ?? '';
  return toJson(payload.value) ?? payload.text ?? '';
}

const plainPrompt = (payload: Payload, wire: string): Prompt => ({
  wire,
  format: 'text',
  messages: [user(textOf(payload))],
  parameters: {},
  jsonRequested: false,
});

const isPlainText = (payload: Payload | undefined): payload is Payload => payload?.kind === 'text';

function conversationOf(
  knownPrompt: Prompt | undefined,
  knownReply: Reply | undefined,
  request: Payload | undefined,
  response: Payload | undefined,
  baseId: string | undefined,
  notes: string[],
): Interpretation | undefined {
  const reply = knownReply ?? replyTo(knownPrompt, request, response, notes);
  const prompt = knownPrompt ?? promptFor(reply, request, response);
  if (prompt === undefined && reply === undefined) return undefined;
  // Text that is asked of a classifier, say: its answer is no talk.
  if (prompt !== undefined && reply === undefined && isThere(response)) return undefined;

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
    ...(wireFormat === undefined ? {} : { wireFormat }),
    conversation,
    ...(batch === undefined ? {} : batchInferences(batch, replies, baseId, isThere(response), notes)),
  };
}

/** A reply of unknown shape to a request for text. */
function replyTo(
  prompt: Prompt | undefined,
  request: Payload | undefined,
  response: Payload | undefined,
  notes: string[],
): Reply | undefined {
  if (!isThere(response)) return undefined;
  const asksForTalk =
    prompt !== undefined &&
    (prompt.format === 'chat' || prompt.format === 'messages' || prompt.format === 'completion');
  const asksWithWords =
    prompt !== undefined || isPlainText(request) || readGenericPrompt(documentOf(request)) !== undefined;
  const reply = (content: string): Reply => ({
    wire: 'text',
    format: 'text',
    replies: [assistant(content)],
    finishReasons: [],
  });
  if (isPlainText(response) && (asksWithWords || !isThere(request) || isPlainText(request)))
    return reply(textOf(response));
  if (!isDocument(response)) return undefined;
  const generic = asksWithWords ? readGenericReply(response.value) : undefined;
  if (generic !== undefined) return generic;
  if (!asksForTalk) return undefined;
  notes.push('the reply has no known form; its JSON stands as the assistant’s message');
  return reply(textOf(response));
}

/** A request of unknown shape that was answered with text, or plain text by itself. */
function promptFor(
  reply: Reply | undefined,
  request: Payload | undefined,
  response: Payload | undefined,
): Prompt | undefined {
  if (!isThere(request)) return undefined;
  if (reply === undefined) return isPlainText(request) && !isThere(response) ? plainPrompt(request, 'text') : undefined;
  const generic = readGenericPrompt(documentOf(request));
  return generic ?? plainPrompt(request, 'text');
}

/** The format's name comes from the side that is sure of it. */
function formatOf(prompt: Prompt | undefined, reply: Reply | undefined, response: Payload | undefined): CaptureFormat {
  const known = [prompt, reply].filter(
    (side) => side !== undefined && side.wire !== 'text' && side.wire !== 'generic-text',
  );
  const format =
    known[0]?.format ?? [prompt, reply].find((side) => side !== undefined && side.wire !== 'text')?.format ?? 'text';
  return format === 'chat' && response?.kind === 'event-stream' ? 'chat-stream' : format;
}

function wireOf(prompt: Prompt | undefined, reply: Reply | undefined): string | undefined {
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
): Pick<Interpretation, 'inferences' | 'inferenceCount' | 'inferenceMismatch'> {
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
  const isMismatch = answered && !isEven;
  if (isMismatch) notes.push(`${batch.length} inputs but ${replies.length} outputs`);
  return {
    inferences,
    inferenceCount: batch.length,
    ...(isMismatch ? { inferenceMismatch: { inputs: batch.length, outputs: replies.length } } : {}),
  };
}

/** As for tables, see `MAX_INFERENCES`; a prompt is longer than a row. */
const MAX_BATCH = 1_000;

function modelOf(value: unknown): string | undefined {
  const body = Array.isArray(value) ? value[0] : value;
  if (!isObject(body)) return undefined;
  for (const name of ['model', 'modelId', 'model_id', 'modelVersion', 'model_name']) {
    const model = body[name];
    if (typeof model === 'string' && model !== '') return model;
  }
  return undefined;
}
