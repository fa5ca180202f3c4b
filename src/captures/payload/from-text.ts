/** Decodes a payload that is text: JSON, CSV, JSON Lines, a stream of events, or plain text. */
import type { ContentType } from '../content-type.ts';
import { parseJson } from '../json.ts';
import { assembleStream } from '../stream/assemble.ts';
import { type EventStream, looksLikeEventStream, parseEventStream, unframed } from '../stream/framing.ts';
import type { Payload } from '../types.ts';
import { countValues, type Scale } from '../weight.ts';
import type { StreamSource } from '../wire/registry.ts';
import { looksLikeNumericCsv, parseCsv, parseCsvReply } from './csv.ts';

/** How a side is read. */
export interface Reading {
  side: 'request' | 'reply';
  /** Collects notes for the reader. */
  notes: string[];
  /** Adds up the memory of the payload before it is allocated. */
  scale: Scale;
}

/** The input that all steps of decoding one side share. */
export interface DecodingContext extends Reading {
  announced: Pick<Payload, 'contentType' | 'encoding'>;
  type: ContentType;
}

/** A text with all that is known of its payload but the kind. */
interface TextContext extends DecodingContext {
  base: Pick<Payload, 'contentType' | 'encoding' | 'bytes'> & { text: string };
}

/**
 * Tries the announced kind first, then the kinds that the text looks like.
 *
 * @param bytes size of the decoded payload.
 * @throws TooHeavy
 */
export function fromText(given: DecodingContext, data: string, bytes: number): Payload {
  const { side, announced, type, notes } = given;
  const text = data.charCodeAt(0) === 0xfeff ? data.slice(1) : data;
  const base = { ...announced, bytes, text };
  const context = { ...given, base };
  if (text.trim() === '') return { ...base, kind: 'empty', value: null };

  const encoding = announced.encoding.toUpperCase();
  const announces = type.announces ?? (encoding === 'CSV' ? 'csv' : undefined);
  if (announces === 'text') return { ...base, kind: 'text', value: text };
  context.scale.values(countValues(text));
  if (announces === 'csv') return fromCsv(context);
  if (announces === 'event-stream' && looksLikeEventStream(text, true)) return fromEvents(context);
  if (announces === 'jsonlines') {
    const lines = parseJsonLines(text, true, notes);
    if (lines !== undefined) return fromLines(context, lines);
  }
  const parsed = parseJson(text);
  if (parsed.ok) {
    const { value, duplicateKeys } = parsed;
    // Some clients encode their document twice by mistake.
    const inner = typeof value === 'string' && /^\s*[[{]/.test(value) ? parseJson(value) : undefined;
    if (inner?.ok) {
      notes.push(`${side}: a JSON document within a JSON string`);
      return { ...base, kind: 'json', value: inner.value, keepText: true };
    }
    notes.push(...parsed.notes.map((note) => `${side}: ${note}`));
    const streamed = fromItems(context, value, 'list');
    return streamed ?? { ...base, kind: 'json', value, ...(duplicateKeys ? { keepText: true } : {}) };
  }
  if (looksLikeEventStream(text)) return fromEvents(context);
  const lines = parseJsonLines(text, false, notes);
  if (lines !== undefined) return fromLines(context, lines);
  if (announces === undefined && looksLikeNumericCsv(text)) return fromCsv(context);
  // SageMaker chooses the encoding. With a specific type, such as YAML, it only means that the data is written as text.
  const isAnnounced = announces !== undefined || (encoding === 'JSON' && type.media === undefined);
  const fault = announces === 'event-stream' ? 'it has no events' : parsed.problem;
  const problem = `announced as ${type.media ?? announced.encoding}, but ${fault}`;
  return { ...base, kind: 'text', value: text, ...(isAnnounced ? { problem } : {}) };
}

function fromCsv({ side, base }: TextContext): Payload {
  const table = side === 'reply' ? parseCsvReply(base.text) : parseCsv(base.text);
  if ('rows' in table) return { ...base, kind: 'csv', value: table.rows };
  return { ...base, kind: 'text', value: base.text, problem: `announced as CSV, but ${table.problem}` };
}

const fromEvents = (context: TextContext): Payload =>
  fromStream(context, parseEventStream(context.base.text), 'events') as Payload;

/** LMI and Ollama stream a reply as one JSON document a line. */
const fromLines = (context: TextContext, lines: unknown[]): Payload =>
  fromItems(context, lines, 'lines') ?? { ...context.base, kind: 'jsonlines', value: lines };

function fromItems(context: TextContext, items: unknown, source: StreamSource): Payload | undefined {
  if (context.side === 'request' || !Array.isArray(items)) return undefined;
  const stream = { events: items.map((data) => ({ data })), done: false, broken: 0 };
  return fromStream(context, stream, source);
}

/** @returns `undefined` for items that are not a stream. Server-sent events always are one. */
function fromStream(context: TextContext, framed: EventStream, source: StreamSource): Payload | undefined {
  const { notes, scale, base } = context;
  const count = (text: string): void => scale.values(countValues(text));
  const events = framed.events.map((event) => ({ ...event, data: unframed(event.data, count) }));
  const assembled = assembleStream({ ...framed, events }, source);
  if (source !== 'events' && assembled === undefined) return undefined;
  if (framed.broken > 0) notes.push(`${framed.broken} of the stream’s events could not be read`);
  if (assembled !== undefined) notes.push(...assembled.notes);
  if (events.length === 0) {
    notes.push('the stream contains no readable event');
    return { ...base, kind: 'empty', value: null, keepText: true };
  }
  const value = assembled === undefined ? events.map((event) => event.data) : assembled.value;
  const ended = framed.done || assembled?.ended;
  return { ...base, kind: 'event-stream', value, keepText: true, ...(ended === undefined ? {} : { ended }) };
}

/**
 * Parses bodies with one JSON document per line.
 *
 * @param announced the content type announces JSON Lines. A line that does not parse is then kept as text, with a note.
 *   Otherwise there must be at least two lines, each an object or a list.
 * @returns the documents, or `undefined` when the body is not JSON Lines.
 */
function parseJsonLines(text: string, announced: boolean, notes: string[]): unknown[] | undefined {
  const first = text.trimStart()[0];
  if (!announced && first !== '{' && first !== '[') return undefined;
  const documents: unknown[] = [];
  const found: string[] = [];
  let unread = 0;
  for (const line of text.split(/\r?\n/)) {
    if (line.trim() === '') continue;
    const parsed = parseJson(line);
    if (parsed.ok) {
      if (!announced && (typeof parsed.value !== 'object' || parsed.value === null)) return undefined;
      documents.push(parsed.value);
      found.push(...parsed.notes);
    } else {
      if (!announced) return undefined;
      unread += 1;
      documents.push(line);
    }
  }
  if (unread === documents.length || (!announced && documents.length < 2)) return undefined;
  if (unread > 0) found.push(`${unread} of ${documents.length} JSON lines could not be read and are kept as text`);
  notes.push(...new Set(found));
  return documents;
}
