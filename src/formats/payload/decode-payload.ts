/** One side of a capture: what `data` holds, as far as its bytes, its encoding and its content type tell. */
import { hash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { type ContentType, parseContentType } from '../content-type.ts';
import { isObject, parseJson, toJson } from '../json.ts';
import { assembleStream } from '../stream/assemble.ts';
import { type EventStream, looksLikeEventStream, parseEventStream, unframed } from '../stream/events.ts';
import type { Payload } from '../types.ts';
import { countValues, Scale, TooHeavy } from '../weight.ts';
import type { StreamSource } from '../wire/registry.ts';
import { decodeText } from './charset.ts';
import { looksLikeNumericCsv, parseCsv } from './csv.ts';
import { parseJsonLines } from './json-lines.ts';
import { readTensors } from './tensors.ts';

/** A summary in place of bytes; they stay in S3. */
export interface BinarySummary {
  binary: true;
  contentType: string | null;
  bytes: number;
  sha256: string;
}

/** What all steps of decoding one side share. */
interface Context {
  side: 'request' | 'reply';
  announced: { contentType: string | null; encoding: string };
  type: ContentType;
  /** Collects what a reader should know. */
  notes: string[];
  scale: Scale;
}

/**
 * @param captured `endpointInput` or `endpointOutput`; anything but an object is kept as it is.
 * @param notes collects what a reader should know.
 * @param scale is told what the payload becomes before it is taken apart.
 * @returns `undefined` when the side was not captured.
 * @throws TooHeavy
 */
export function decodePayload(
  side: Context['side'],
  captured: unknown,
  notes: string[],
  scale: Scale,
): Payload | undefined {
  if (captured === undefined || captured === null) return undefined;
  const fields = isObject(captured) ? captured : {};
  const observed = fields.observedContentType;
  const encoding = typeof fields.encoding === 'string' ? fields.encoding : '';
  const context: Context = {
    side,
    announced: { contentType: typeof observed === 'string' ? observed : null, encoding },
    type: parseContentType(observed),
    notes,
    scale,
  };
  if (!isObject(captured)) return undecodable(context, captured, 'captured as something other than an object');
  const { data } = captured;
  if (data === undefined || data === null) return { ...context.announced, kind: 'empty', value: null, bytes: 0 };
  // Not what Data Capture writes, but clear enough: a document in place of its text.
  if (typeof data !== 'string') return fromDocument(context, data);
  switch (encoding.toUpperCase()) {
    case 'BASE64':
      return fromBase64(context, data);
    case 'JSON':
    case 'CSV':
    case '':
      return fromText(context, data, Buffer.byteLength(data));
    default: {
      const known = 'known are JSON, CSV and BASE64';
      return undecodable(context, data, `encoded as “${encoding.slice(0, 40)}”, which is not known; ${known}`);
    }
  }
}

/**
 * A body as it came over the wire, read as a captured one is.
 *
 * @param notes collects what a reader should know.
 * @throws TooHeavy
 */
export function payloadOfBytes(
  side: Context['side'],
  bytes: Buffer,
  contentType: string | null,
  notes: string[] = [],
  scale = new Scale(),
): Payload {
  const announced = { contentType, encoding: '' };
  return fromBytes({ side, announced, type: parseContentType(contentType), notes, scale }, bytes);
}

function undecodable({ announced }: Context, captured: unknown, problem: string): Payload {
  const text = typeof captured === 'string' ? captured : (toJson(captured) ?? 'nested too deep to be written out');
  return { ...announced, kind: 'raw', value: text, text, bytes: Buffer.byteLength(text), problem };
}

function fromDocument(context: Context, data: unknown): Payload {
  const text = toJson(data);
  if (text === undefined) return undecodable(context, data, 'nested too deep to be written out');
  return fromText(context, text, Buffer.byteLength(text));
}

// --------------------------------------------------------------------------------------------------------- base64

/** Not in either alphabet of base64, nor padding, nor a line break. */
const NOT_BASE64 = /[^A-Za-z0-9+/_=\s-]/;

/** @returns `undefined` when the text is not base64; Node's own decoder would skip over what is not. */
export function decodeBase64(data: string): Buffer | undefined {
  if (NOT_BASE64.test(data)) return undefined;
  const dense = /\s/.test(data) ? data.replace(/\s+/g, '') : data;
  const firstPad = dense.indexOf('=');
  const digits = firstPad === -1 ? dense.length : firstPad;
  const isPadded = /^={0,2}$/.test(dense.slice(digits, digits + 3));
  return isPadded && digits % 4 !== 1 ? Buffer.from(dense, 'base64') : undefined;
}

function fromBase64(context: Context, data: string): Payload {
  const bytes = decodeBase64(data);
  if (bytes === undefined) return undecodable(context, data, 'announced as BASE64 but not valid base64');
  return fromBytes(context, bytes);
}

function fromBytes(context: Context, bytes: Buffer): Payload {
  const { announced, type, notes } = context;
  if (bytes.length === 0) return { ...announced, kind: 'empty', value: null, bytes: 0 };
  if (type.announces === 'binary') return binary(context, bytes);
  if (type.headerBytes !== undefined) return fromTensors(context, bytes, type.headerBytes);
  const unpacked = gunzipped(context, bytes);
  if (unpacked !== undefined) {
    const content = decodeText(unpacked, type.charset, true);
    if ('binary' in content) return binary(context, bytes);
    notes.push(`${nameOf(context)}: compressed by gzip`);
    return fromText(context, content.text, bytes.length);
  }
  const decoded = decodeText(bytes, type.charset, type.announces !== undefined);
  if ('binary' in decoded) return binary(context, bytes);
  if (decoded.note !== undefined) notes.push(`${nameOf(context)}: ${decoded.note}`);
  return fromText(context, decoded.text, bytes.length);
}

function fromTensors(context: Context, bytes: Buffer, headerBytes: number): Payload {
  const read = readTensors(bytes, headerBytes, context.scale);
  if ('value' in read) return { ...context.announced, kind: 'json', value: read.value, bytes: bytes.length };
  return { ...binary(context, bytes), problem: `announced as tensors behind JSON, but ${read.problem}` };
}

/** Most that a compressed body may unpack to; SageMaker's own limit for a body is 25 MB. */
const MAX_UNPACKED_BYTES = 64 * 1024 * 1024;

/** The content of a gzip body: that it is one is told by a header, which is not captured. */
function gunzipped(context: Context, bytes: Buffer): Buffer | undefined {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return undefined;
  const { scale, notes } = context;
  const most = Math.min(MAX_UNPACKED_BYTES, Math.ceil(scale.charactersLeft) + 1);
  try {
    const unpacked = gunzipSync(bytes, { maxOutputLength: most });
    scale.characters(unpacked.length);
    return unpacked;
  } catch (error) {
    // Damaged, or not gzip after all: kept as the bytes that it is.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE' && !(error instanceof TooHeavy))
      return undefined;
    scale.characters(most);
    notes.push(
      `${nameOf(context)}: unpacks to more than ${MAX_UNPACKED_BYTES} bytes, and is kept as the bytes that it is`,
    );
    return undefined;
  }
}

function binary({ announced, type }: Context, bytes: Buffer): Payload {
  const value: BinarySummary = {
    binary: true,
    contentType: announced.contentType,
    bytes: bytes.length,
    sha256: hash('sha256', bytes),
  };
  const isSurprise = type.announces !== undefined && type.announces !== 'binary';
  const problem = isSurprise ? { problem: `announced as ${type.media} but the bytes are no text` } : {};
  return { ...announced, kind: 'binary', value, bytes: bytes.length, ...problem };
}

// ----------------------------------------------------------------------------------------------------------- text

const nameOf = ({ side }: Context): string => (side === 'request' ? 'request' : 'reply');

/** A payload before it is known what it holds. */
type TextPayload = Pick<Payload, 'contentType' | 'encoding' | 'bytes'> & { text: string };

/** The kind that is announced is tried first, then what the text itself looks like. */
function fromText(context: Context, data: string, bytes: number): Payload {
  const { announced, type } = context;
  const text = data.charCodeAt(0) === 0xfeff ? data.slice(1) : data;
  const base: TextPayload = { ...announced, bytes, text };
  if (text.trim() === '') return { ...base, kind: 'empty', value: null };

  const announces = type.announces ?? (announced.encoding.toUpperCase() === 'CSV' ? 'csv' : undefined);
  if (announces === 'text') return { ...base, kind: 'text', value: text };
  context.scale.values(countValues(text));
  if (announces === 'csv') return fromCsv(base);
  if (announces === 'event-stream' && looksLikeEventStream(text)) return fromEvents(context, base);
  if (announces === 'jsonlines') {
    const lines = parseJsonLines(text, true, context.notes);
    if (lines !== undefined) return fromLines(context, base, lines);
  }
  const parsed = parseJson(text);
  if (parsed.ok) {
    // Encoded twice, as clients do by mistake.
    const inner =
      typeof parsed.value === 'string' && /^\s*[[{]/.test(parsed.value) ? parseJson(parsed.value) : undefined;
    if (inner?.ok) {
      context.notes.push(`${nameOf(context)}: a JSON document within a JSON string`);
      return { ...base, kind: 'json', value: inner.value, keepText: true };
    }
    context.notes.push(...parsed.notes.map((note) => `${nameOf(context)}: ${note}`));
    const { value, duplicateKeys } = parsed;
    const streamed = fromItems(context, base, value, 'list');
    return streamed ?? { ...base, kind: 'json', value, ...(duplicateKeys ? { keepText: true } : {}) };
  }
  if (looksLikeEventStream(text)) return fromEvents(context, base);
  const lines = parseJsonLines(text, false, context.notes);
  if (lines !== undefined) return fromLines(context, base, lines);
  if (announces === undefined && looksLikeNumericCsv(text)) return fromCsv(base);
  const isAnnounced = announces !== undefined || announced.encoding.toUpperCase() === 'JSON';
  const problem = `announced as ${type.media ?? announced.encoding}, but ${parsed.problem}`;
  return { ...base, kind: 'text', value: text, ...(isAnnounced ? { problem } : {}) };
}

function fromCsv(base: TextPayload): Payload {
  const table = parseCsv(base.text);
  if ('rows' in table) return { ...base, kind: 'csv', value: table.rows };
  return { ...base, kind: 'text', value: base.text, problem: `announced as CSV, but ${table.problem}` };
}

const fromEvents = (context: Context, base: TextPayload): Payload =>
  fromStream(context, parseEventStream(base.text), 'events', base) as Payload;

/** A streamed reply may also come as one JSON document a line: LMI and Ollama send it so. */
const fromLines = (context: Context, base: TextPayload, lines: unknown[]): Payload =>
  fromItems(context, base, lines, 'lines') ?? { ...base, kind: 'jsonlines', value: lines };

function fromItems(context: Context, base: TextPayload, items: unknown, source: StreamSource): Payload | undefined {
  if (context.side === 'request' || !Array.isArray(items)) return undefined;
  const stream = { events: items.map((data) => ({ data })), done: false, broken: 0 };
  return fromStream(context, stream, source, base);
}

/** @returns `undefined` for items that are no stream; server-sent events always are one. */
function fromStream(
  context: Context,
  framed: EventStream,
  source: StreamSource,
  base: TextPayload,
): Payload | undefined {
  const { notes, scale } = context;
  const count = (text: string): void => scale.values(countValues(text));
  const events = framed.events.map((event) => ({ ...event, data: unframed(event.data, count) }));
  const stream = { ...framed, events };
  const assembled = assembleStream(stream, source);
  if (source !== 'events' && assembled === undefined) return undefined;
  if (stream.broken > 0) notes.push(`${stream.broken} of the stream’s events could not be read`);
  if (assembled !== undefined) notes.push(...assembled.notes);
  if (stream.events.length === 0) {
    notes.push('the stream holds no event that could be read');
    return { ...base, kind: 'empty', value: null, keepText: true };
  }
  const value = assembled === undefined ? stream.events.map((event) => event.data) : assembled.value;
  const ended = stream.done || assembled?.ended;
  return { ...base, kind: 'event-stream', value, keepText: true, ...(ended === undefined ? {} : { ended }) };
}

// -------------------------------------------------------------------------------------------------------- reading

/** Whether something was captured, and is not empty. */
export const isThere = (payload: Payload | undefined): payload is Payload =>
  payload !== undefined && payload.kind !== 'empty';
const isDocument = (payload: Payload | undefined): boolean =>
  payload !== undefined && (payload.kind === 'json' || payload.kind === 'event-stream' || payload.kind === 'jsonlines');
/** The payload's JSON value, where it has one. */
export const documentOf = (payload: Payload | undefined): unknown => (isDocument(payload) ? payload?.value : undefined);
