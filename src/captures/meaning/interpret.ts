/**
 * Interprets a capture's two payloads together: as a conversation, inferences, an embedding, an error, or documents.
 */

import { errorReply } from '../errors/error-reply.ts';
import { firstOf } from '../first-of.ts';
import { asCount, isObject, type JsonObject, toJson } from '../json.ts';
import { documentOf, isThere } from '../payload/decode-payload.ts';
import { containsProse } from '../prose.ts';
import type { CaptureFormat, DecodeOptions, Inferences, Meaning, Payload, TokenUsage } from '../types.ts';
import { readGenericReply, readWirePrompt, readWireReply } from '../wire/registry.ts';
import USAGE from '../wire/usage-paths.json' with { type: 'json' };
import { fieldsOf, textIn } from '../wire/wire-format.ts';
import { conversationOf, UNKNOWN_FORM, WORDS_IN_ROWS } from './conversation.ts';
import { whyMoved } from './csv-header.ts';
import { asksWithText, summarizeEmbedding } from './embedding.ts';
import { type Exchange, listInferences } from './inferences.ts';
import { hasRows, isPredictions, isSentence, predictionsOf, whyUnclear } from './reply-rows.ts';
import { answeredTable, requestTable, type Table } from './request-rows.ts';
import { talkIn } from './rows-of-words.ts';

/** Interprets a request and its reply, which may be an error. Either may be missing. */
export function interpret(exchange: Partial<Exchange>): Meaning {
  const { request, response } = exchange;
  const error = errorReply(response);
  const meaning = meaningOf(error === undefined ? exchange : { ...exchange, response: undefined });
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

/** Interprets a request and its reply, which is not an error. Either may be missing. */
export function meaningOf({ options = {}, notes = [], ...sides }: Partial<Exchange>): Meaning {
  const { request, response } = sides;
  const exchange = { ...sides, options, notes };
  if (!isThere(request) && !isThere(response)) return { format: 'empty' };
  const reply = readWireReply(documentOf(response));
  const prompt = readWirePrompt(documentOf(request), reply?.wire);
  if (reply === undefined) {
    const embedding = embeddingOf(exchange);
    if (embedding !== undefined) return embedding;
    // A text model may answer with a table. Other prompts belong to a conversation, whatever the answer is.
    if (prompt === undefined || prompt.format === 'text-generation') {
      const found: string[] = [];
      const table = tabularInferences({ ...exchange, notes: found });
      const talk = talkIn(table?.inferences ?? [], documentOf(request));
      if (talk !== undefined) return conversationOf({ ...exchange, ...talk }) as Meaning;
      notes.push(...found);
      if (table !== undefined) {
        if (containsProse(table.inferences?.map(({ prediction }) => prediction))) notes.push(WORDS_IN_ROWS);
        return { format: tabularFormat(exchange), ...table };
      }
    }
  }
  const conversation = conversationOf({ ...exchange, prompt, reply });
  if (conversation !== undefined) return conversation;
  const why = isThere(response) ? whyUnclear(request, response) : undefined;
  if (containsProse(documentOf(response))) notes.push(UNKNOWN_FORM);
  return { format: plainFormat(exchange), ...unindexed(why, notes) };
}

function embeddingOf({ request, response }: Exchange): Meaning | undefined {
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

/** Returns the format of a tabular exchange. The first side with a specific kind decides. */
const tabularFormat = ({ request, response }: Exchange): CaptureFormat => {
  const kinds = [request?.kind, response?.kind];
  const telling = kinds.filter((kind) => kind === 'csv' || kind === 'json' || kind === 'jsonlines');
  if (telling[0] === 'csv') return 'tabular-csv';
  return telling.includes('jsonlines') ? 'jsonlines' : 'tabular-json';
};

/** Returns the format of an exchange that is neither a conversation nor a table. */
function plainFormat({ request, response }: Exchange): CaptureFormat {
  const kinds = [request, response].filter(isThere).map((payload) => payload.kind);
  if (kinds.includes('binary')) return 'binary';
  if (kinds.includes('jsonlines')) return 'jsonlines';
  if (kinds.some((kind) => kind === 'json' || kind === 'event-stream' || kind === 'csv')) return 'json';
  return 'text';
}

const NAMES_OF_MODELS = ['model', 'modelId', 'model_id', 'modelVersion', 'model_name'];

/** Returns the name of the model that a request or a reply names. */
export function modelOf(value: unknown): string | undefined {
  const body = fieldsOf(Array.isArray(value) ? value[0] : value);
  return firstOf(NAMES_OF_MODELS, (name) => textIn(body[name]) || undefined);
}

// ---------------------------------------------------------------------------------------------------------- tables
// Requests and replies of rows, as inferences: one per row, with features and prediction.

/**
 * Maximum number of inferences that are listed. Each becomes a span of about 600 bytes: 10,000 are 6 MB, which still fits
 * one request to MLflow. The rest stays in the payload, with a note.
 */
const MAX_ROWS = 10_000;

/** Unwraps `{features: […]}` and `{data: {features: {values: […]}}}` (SageMaker's built-in algorithms). */
function cellsOf(row: unknown): unknown {
  if (!isObject(row)) return row;
  const features = row.features ?? (isObject(row.data) ? row.data.features : undefined);
  if (isObject(features) && Array.isArray(features.values)) return features.values;
  return features ?? row;
}

/** Names the features. A feature without a name gets its position. */
function featuresOf(row: unknown, names: readonly string[]): JsonObject {
  const cells = cellsOf(row);
  if (isObject(cells)) return cells;
  const list = Array.isArray(cells) ? cells : [cells];
  return Object.fromEntries(list.map((cell, position) => [names[position] ?? String(position), cell]));
}

/**
 * Interprets an exchange as inferences, one per row.
 *
 * @returns `undefined` if the exchange is not tabular.
 */
function tabularInferences(exchange: Exchange): Inferences | undefined {
  const { request, response: reply, options, notes } = exchange;
  const table = isThere(request) ? (requestTable(request, options) ?? tableOfAnswered(request, reply)) : undefined;
  if (table === undefined) {
    if (!isThere(reply) || !(isThere(request) ? hasRows(reply) : isPredictions(reply))) return undefined;
  }
  const inputs = table?.rows.length;
  const predictions = isThere(reply) ? (predictionsOf(reply, inputs, options.csvHeader) ?? [reply.value]) : undefined;
  const outputs = predictions?.length;
  const count = Math.max(inputs ?? 0, outputs ?? 0);
  if (count === 0) return undefined;
  const names = options.featureNames?.length ? options.featureNames : (table?.names ?? []);
  checkNames(table, options, notes);
  const mismatch = inputs !== undefined && outputs !== undefined && inputs !== outputs && { inputs, outputs };
  const call = { ...exchange, count, most: MAX_ROWS, what: 'inferences', mismatch };
  const found = listInferences(call, (index) => ({
    ...(inputs !== undefined && index < inputs ? { features: featuresOf(table?.rows[index], names) } : {}),
    ...(predictions !== undefined && index < predictions.length ? { prediction: predictions[index] } : {}),
  }));
  if (!isThere(reply)) return found;
  const isCounted = inputs !== undefined && !table?.isFlat;
  const isProse = isSentence(reply) && !asksInWords(table, request);
  const moved = isProse ? 'the reply is a text, not a class' : whyMoved(request, reply, options.csvHeader);
  const why = moved ?? (isCounted ? undefined : whyUnclear(request, reply, options.csvHeader));
  return { ...found, ...unindexed(why, notes) };
}

/** Whether a sentence may be the answer to a request, because the request is a sentence or a row without a number. */
const asksInWords = (table: Table | undefined, request: Payload | undefined): boolean =>
  containsProse(table?.rows ?? request?.value) || (table !== undefined && !/\d/.test(toJson(table.rows[0]) ?? ''));

/**
 * Marks predictions that may belong to other inferences, so that no label is joined with them. @param why `undefined`
 * if the predictions are certain
 */
function unindexed(why: string | undefined, notes: string[]): Pick<Inferences, 'unclear'> {
  if (why === undefined) return {};
  notes.push(`${why}; it is not kept as a prediction`);
  return { unclear: true };
}

/** Texts are rows if a list answers them, but not a list of texts: that is a conversation. */
function tableOfAnswered(request: Payload, reply: Payload | undefined): Table | undefined {
  if (!isThere(reply) || readGenericReply(documentOf(reply)) !== undefined) return undefined;
  if (reply.kind !== 'csv' && documentOf(reply) === undefined) return undefined;
  const table = answeredTable(request);
  return table && predictionsOf(reply, table.rows.length) && table;
}

function checkNames(table: Table | undefined, options: DecodeOptions, notes: string[]): void {
  const expected = options.featureNames?.length;
  const first = cellsOf(table?.rows[0]);
  if (expected === undefined || expected === 0 || !Array.isArray(first) || first.length === expected) return;
  notes.push(`${expected} feature names are set, the first row has ${first.length} features`);
}

// ---------------------------------------------------------------------------------------------------- token counts
// Read from the fields in which servers write them. Nothing is estimated: a missing count stays unknown.

const NAMES = ['inputTokens', 'outputTokens', 'totalTokens', 'cachedInputTokens', 'reasoningTokens'] as const;
type Paths = Partial<Record<(typeof NAMES)[number], string[]>>;
/** Paths of a reply's token counts, by wire format: `results.*.n` is the sum over a list, `list.length` its length. */
const PATHS = NAMES.map((name) => {
  const paths = Object.values<Paths>(USAGE).flatMap((counts) => counts[name] ?? []);
  return [name, paths.map((path) => path.split('.'))] as const;
});
/** A larger count is not believable. */
const MAX_TOKENS = 1e9;

/** Compares the names of headers without regard to case and `_`, since spellings vary. */
function under(value: Record<string, unknown>, name: string): unknown {
  if (Object.hasOwn(value, name) || !name.includes('-')) return Object.hasOwn(value, name) ? value[name] : undefined;
  const found = Object.keys(value).find((key) => key.toLowerCase().replaceAll('_', '-') === name);
  return found === undefined ? undefined : value[found];
}

function countAt(value: unknown, [name, ...rest]: readonly string[]): number | undefined {
  if (name === undefined) {
    const count = asCount(value);
    return count !== undefined && count <= MAX_TOKENS ? count : undefined;
  }
  if (!Array.isArray(value)) return isObject(value) ? countAt(under(value, name), rest) : undefined;
  if (name === 'length') return value.length || undefined;
  return name === '*' ? sumOf(value, (item) => countAt(item, rest)) : undefined;
}

/** Adds up the counts when all items have one. Stops at the first without one, since a list can have a million items. */
function sumOf<Item>(items: readonly Item[], countOf: (item: Item) => number | undefined): number | undefined {
  let sum = 0;
  for (const item of items) {
    const count = countOf(item);
    if (count === undefined) return undefined;
    sum += count;
  }
  return items.length > 0 ? sum : undefined;
}

/** @param value of the reply. The counts of a list's items are added up. */
export function tokenUsageOf(value: unknown): TokenUsage | undefined {
  const items = (Array.isArray(value) ? value.flat(1) : [value]).filter(isObject);
  const usage: TokenUsage = {};
  for (const [name, paths] of PATHS) {
    const count = sumOf(items, (body) => firstOf(paths, (path) => countAt(body, path)));
    if (count !== undefined) usage[name] = count;
  }
  const { inputTokens, outputTokens } = usage;
  if (inputTokens !== undefined && outputTokens !== undefined) usage.totalTokens ??= inputTokens + outputTokens;
  return Object.keys(usage).length > 0 ? usage : undefined;
}
