/** Reads the record around the payloads, and describes the fault of a line that is not a capture record. */
import { isUtf8 } from 'node:buffer';
import NAMES from '../field-names.json' with { type: 'json' };
import { isObject, type JsonObject, parseJson } from '../json.ts';
import type { QuarantineCause } from '../types.ts';
import type { Scale } from '../weight.ts';
import FOREIGN from './foreign-records.json' with { type: 'json' };

export interface Envelope {
  record: JsonObject;
  captureData: JsonObject;
  /** `{}` if the record has no metadata. */
  eventMetadata: JsonObject;
  /** Fields that Data Capture is not known to write. */
  extraFields?: JsonObject;
  /** Oddities of the record itself. */
  notes: string[];
}

/**
 * Maximum nesting of a record. It has three levels, and may contain unknown fields. A level needs about 100 bytes: ten
 * thousand are 1 MB. A hostile line of 30 MB has 15 million levels, and would exhaust a function's memory.
 */
const MAX_RECORD_DEPTH = 10_000;

/**
 * Creates the reason for a bad line. It is printed and kept in places without lines, so it quotes nothing from the
 * line.
 */
const bad = (name: string, message: string): { reason: QuarantineCause } => ({ reason: { name, message } });

/**
 * Opens the record of a line.
 *
 * @param bytes of the line.
 * @throws TooHeavy
 */
export function openEnvelope(bytes: Buffer, scale: Scale): { envelope: Envelope } | { reason: QuarantineCause } {
  const text = bytes.toString('utf8');
  const parsed = parseJson(text, MAX_RECORD_DEPTH, scale);
  if (!parsed.ok) return bad(parsed.tooDeep ? 'NestedTooDeep' : 'NotJson', describeBadJson(text, parsed));
  const record = parsed.value;
  if (!isObject(record)) {
    const expected = 'a capture record (an object with captureData)';
    return bad('NotACaptureRecord', `the line is JSON, but ${whatIs(record)} where ${expected} is expected`);
  }
  const { captureData, eventMetadata } = record;
  if (!isObject(captureData)) return bad('NotACaptureRecord', describeForeign(record, captureData));
  const metadata = isObject(eventMetadata) ? eventMetadata : {};
  const extraFields = extrasOf(record, captureData, metadata);
  // U+FFFD was captured, or replaces bytes that are not text.
  const isDamaged = text.includes('\ufffd') && !isUtf8(bytes);
  if (isDamaged) parsed.notes.push('the line is not valid UTF-8: invalid bytes are shown as U+FFFD');
  return { envelope: { record, captureData, eventMetadata: metadata, notes: parsed.notes, extraFields } };
}

const whatIs = (value: unknown): string =>
  Array.isArray(value) ? 'a list' : value === null ? 'null' : `a ${typeof value}`;

function describeBadJson(text: string, { problem, tooDeep }: { problem: string; tooDeep: boolean }): string {
  if (tooDeep) return `the line cannot be read: ${problem}`;
  const nul = text.indexOf('\u0000');
  if (nul >= 0) return `the line is not JSON: it contains NUL bytes, as damaged files do, first at position ${nul}`;
  const trimmed = text.trim();
  if (trimmed.startsWith('{') && !trimmed.endsWith('}')) {
    return `the line is cut off: it begins as a JSON object but does not end as one, after ${trimmed.length} characters`;
  }
  return `the line cannot be read: ${problem}`;
}

function describeForeign(record: JsonObject, captureData: unknown): string {
  const fields = Object.keys(record).length;
  const known = FOREIGN.find((one) => one.fields.every((name) => name in record));
  if (known !== undefined) return `the line is ${known.what}, not a capture`;
  if (captureData !== undefined) {
    return `captureData is ${whatIs(captureData)} where an object with endpointInput and endpointOutput is expected`;
  }
  return `the line is a JSON object without captureData; ${fields === 0 ? 'it is empty' : `it has ${fields} other field${fields === 1 ? '' : 's'}`}`;
}

/** Keeps unknown fields under their own name, or under the name of the object that contains them. */
function extrasOf(record: JsonObject, captureData: JsonObject, metadata: JsonObject): JsonObject | undefined {
  const unknown = (fields: JsonObject, known: readonly string[]): [string, unknown][] =>
    Object.entries(fields).filter(([name]) => !known.includes(name));
  const top = unknown(record, NAMES.record);
  // Metadata that is not an object is kept unchanged.
  if ('eventMetadata' in record && !isObject(record.eventMetadata) && record.eventMetadata !== null) {
    top.push(['eventMetadata', record.eventMetadata]);
  }
  const data = unknown(captureData, NAMES.captureData);
  const meta = unknown(metadata, NAMES.eventMetadata);
  if (data.length > 0) top.push(['captureData', Object.fromEntries(data)]);
  if (meta.length > 0) top.push(['eventMetadata', Object.fromEntries(meta)]);
  return top.length > 0 ? Object.fromEntries(top) : undefined;
}
