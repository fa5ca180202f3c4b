/** Summarizes vectors, because their thousands of numbers are useless to a reader. */
import NAMES from '../field-names.json' with { type: 'json' };
import { isExactNumber, isObject, type JsonObject } from '../json.ts';
import { promptsOf } from '../wire/messages.ts';

/** Number of components to keep. */
const SHOWN = 8;
/** A bare list of at least this many numbers is a vector. Shorter lists are scores. */
const MIN_BARE_DIMENSIONS = 16;

const isNumber = (value: unknown): value is number => typeof value === 'number' || isExactNumber(value);
const numberOf = (value: unknown): number => (isExactNumber(value) ? Number(value.rawJSON) : (value as number));
const isVector = (value: unknown, least = 1): value is unknown[] =>
  Array.isArray(value) && value.length >= least && value.every(isNumber);

/** Replaces a vector. */
function summarize(vector: unknown[]) {
  const numbers = vector.map(numberOf);
  // Relative to the largest component, since the square of a large number is beyond a double.
  let most = 0;
  for (const number of numbers) most = Math.max(most, Math.abs(number));
  let squares = 0;
  for (const number of numbers) squares += (number / (most || 1)) ** 2;
  return {
    dimensions: numbers.length,
    /** Euclidean length. */
    norm: Number((most * Math.sqrt(squares)).toPrecision(6)),
    first: numbers.slice(0, SHOWN),
  };
}

/** Summarizes a vector, a list of vectors, or (one vector per token) a list of lists of vectors. */
function summarizeNested(value: unknown, least: number): unknown {
  if (isVector(value, least)) return summarize(value);
  // Gemini: {values: […]}
  if (isObject(value) && isVector(value.values)) return summarize(value.values);
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const inner: unknown[] = [];
  for (const item of value) {
    const summary = summarizeNested(item, least);
    if (summary === undefined) return undefined;
    inner.push(summary);
  }
  return inner;
}

/** Summarizes little-endian floats in base64, which `encoding_format: base64` asks for. */
function summarizeBase64(text: string): unknown {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length === 0 || bytes.length % 4 !== 0) return { base64: true, characters: text.length };
  const floats = Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readFloatLE(index * 4));
  return summarize(floats);
}

const summarizeTexts = (value: unknown): unknown =>
  Array.isArray(value) && value.every((item) => typeof item === 'string') ? value.map(summarizeBase64) : undefined;

function summarizeField(value: unknown): unknown {
  if (typeof value === 'string' && value !== '') return summarizeBase64(value);
  // Cohere: {float: [[…]], int8: [[…]], base64: ["…"]}
  if (isObject(value)) {
    const entries = Object.entries(value).map(
      ([name, item]) => [name, name === 'base64' ? summarizeTexts(item) : summarizeNested(item, 1)] as const,
    );
    return entries.length > 0 && entries.every(([, item]) => item !== undefined)
      ? Object.fromEntries(entries)
      : undefined;
  }
  return summarizeNested(value, 1);
}

function summarizeObject(body: JsonObject): JsonObject | undefined {
  const { data: list } = body;
  if (Array.isArray(list) && list.length > 0 && list.every((item) => isObject(item) && 'embedding' in item)) {
    const data = list.map((item) => ({ ...item, embedding: summarizeField(item.embedding) }));
    return data.every((item) => item.embedding !== undefined) ? { ...body, data } : undefined;
  }
  let found = false;
  const entries = Object.entries(body).map(([name, value]) => {
    const summary = NAMES.embeddings.includes(name) ? summarizeField(value) : undefined;
    found ||= summary !== undefined;
    return [name, summary ?? value];
  });
  return found ? (Object.fromEntries(entries) as JsonObject) : undefined;
}

/** Returns the reply with its vectors summarized, or `undefined` if it has no vectors. */
export function summarizeEmbedding(value: unknown): unknown {
  if (isObject(value)) return summarizeObject(value);
  if (!Array.isArray(value) || value.length === 0) return undefined;
  if (value.every(isObject)) {
    const items = value.map(summarizeObject);
    return items.every((item) => item !== undefined) ? items : undefined;
  }
  // Vectors of tokens are in a separate list for each input. A list of lists alone may be scores.
  const isOfTokens = Array.isArray(value[0]) && Array.isArray(value[0][0]);
  return summarizeNested(value, isOfTokens ? 1 : MIN_BARE_DIMENSIONS);
}

/** Whether a request may ask for an embedding. Bare numbers are a vector only in reply to text. */
export function asksWithText(value: unknown): boolean {
  if (typeof value === 'string') return true;
  if (Array.isArray(value)) return value.length > 0 && value.every((item) => typeof item === 'string');
  return isObject(value) && NAMES.texts.some((name) => name in value && promptsOf(value[name]) !== undefined);
}
