/** Interprets a capture's two payloads together: as a conversation, inferences, an embedding, an error, or documents. */
import { firstOf } from '../../core/values/first-of.ts';
import { errorReply } from '../errors/error-reply.ts';
import { isObject } from '../json.ts';
import { documentOf, isThere } from '../payload/decode-payload.ts';
import type { CaptureFormat, DecodeOptions, Meaning, Payload } from '../types.ts';
import { readWirePrompt, readWireReply } from '../wire/registry.ts';
import { conversationOf, UNKNOWN_FORM } from './conversation.ts';
import { asksWithText, summarizeEmbedding } from './embedding.ts';
import { whyUnclear } from './reply-rows.ts';
import { tabularInferences, unindexed } from './tabular.ts';
import { tokenUsageOf } from './token-usage.ts';

/**
 * Interprets a request and its reply. Either may be missing.
 *
 * @param baseId base of the inferences' ids.
 * @param notes collects facts that a reader should know.
 */
export function interpret(
  request: Payload | undefined,
  response: Payload | undefined,
  baseId?: string,
  options: DecodeOptions = {},
  notes: string[] = [],
): Meaning {
  const error = errorReply(response);
  const meaning = meaningOf(request, error === undefined ? response : undefined, baseId, options, notes);
  const usage = tokenUsageOf(documentOf(response));
  const model = modelOf(documentOf(response)) ?? modelOf(documentOf(request));
  return {
    ...meaning,
    ...(error === undefined ? {} : { format: 'error' as const, error }),
    response: meaning.response ?? response,
    ...(response?.kind === 'event-stream' ? { streamed: true } : {}),
    ...(usage === undefined ? {} : { usage }),
    ...(model === undefined ? {} : { model }),
  };
}

/** Interprets a reply that is not an error. The parameters are those of `interpret`. */
export function meaningOf(
  request: Payload | undefined,
  response: Payload | undefined,
  baseId?: string,
  options: DecodeOptions = {},
  notes: string[] = [],
): Meaning {
  if (!isThere(request) && !isThere(response)) return { format: 'empty' };
  const reply = readWireReply(documentOf(response));
  const prompt = readWirePrompt(documentOf(request), reply?.wire);
  if (reply === undefined) {
    const embedding = embeddingOf(request, response);
    if (embedding !== undefined) return embedding;
    // A text model may answer with a table. Other prompts are for a conversation, whatever the answer is.
    if (prompt === undefined || prompt.format === 'text-generation') {
      const table = tabularInferences(request, response, baseId, options, notes);
      if (table !== undefined) return { format: tabularFormat(request, response), ...table };
    }
  }
  const conversation = conversationOf({ prompt, reply, request, response, baseId, notes });
  if (conversation !== undefined) return conversation;
  const why = isThere(response) ? whyUnclear(request, response) : undefined;
  if (containsProse(documentOf(response))) notes.push(UNKNOWN_FORM);
  return { format: plainFormat(request, response), ...unindexed(why, notes) };
}

/** A string in a JSON document counts as prose from this number of words on. Labels and ids have fewer. */
const MIN_WORDS_OF_PROSE = 3;
/** Documents are not searched deeper than this. */
const MAX_JSON_DEPTH = 6;

function containsProse(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return value.trim().split(/\s+/).length >= MIN_WORDS_OF_PROSE;
  if (value === null || typeof value !== 'object' || depth >= MAX_JSON_DEPTH) return false;
  // A zero-shot classifier's `sequence` is the input.
  return Object.entries(value).some(([name, inner]) => name !== 'sequence' && containsProse(inner, depth + 1));
}

function embeddingOf(request: Payload | undefined, response: Payload | undefined): Meaning | undefined {
  const value = documentOf(response);
  if (value === undefined) return undefined;
  // Bare numbers are a vector only in reply to text. An object names its contents.
  if (Array.isArray(value) && !value.every(isObject) && isThere(request)) {
    const asked = request.kind === 'text' ? request.value : documentOf(request);
    if (!asksWithText(asked)) return undefined;
  }
  const summary = summarizeEmbedding(value);
  if (summary === undefined) return undefined;
  return { format: 'embedding', response: { ...(response as Payload), value: summary } };
}

/** The first side whose kind is specific decides. */
const tabularFormat = (request: Payload | undefined, response: Payload | undefined): CaptureFormat => {
  const kinds = [request?.kind, response?.kind];
  const telling = kinds.filter((kind) => kind === 'csv' || kind === 'json' || kind === 'jsonlines');
  if (telling[0] === 'csv') return 'tabular-csv';
  return telling.includes('jsonlines') ? 'jsonlines' : 'tabular-json';
};

/** Returns the format of an exchange that is neither a conversation nor a table. */
function plainFormat(request: Payload | undefined, response: Payload | undefined): CaptureFormat {
  const kinds = [request, response].filter(isThere).map((payload) => payload.kind);
  if (kinds.includes('binary')) return 'binary';
  if (kinds.includes('jsonlines')) return 'jsonlines';
  if (kinds.some((kind) => kind === 'json' || kind === 'event-stream' || kind === 'csv')) return 'json';
  return 'text';
}

function modelOf(value: unknown): string | undefined {
  const body = Array.isArray(value) ? value[0] : value;
  if (!isObject(body)) return undefined;
  const names = ['model', 'modelId', 'model_id', 'modelVersion', 'model_name'];
  return firstOf(names, (name) => {
    const model = body[name];
    return typeof model === 'string' && model !== '' ? model : undefined;
  });
}
