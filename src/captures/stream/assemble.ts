/**
 * Assembles the events of a streamed reply to the document that the same server would have sent unstreamed. All later
 * code then reads streamed and unstreamed replies alike.
 */
import { isObject, type JsonObject, parseJson } from '../json.ts';
import { assembleEvents, readDelta, readError, type StreamSource } from '../wire/registry.ts';
import type { EventStream, StreamEvent } from './framing.ts';

/** @returns `undefined` when no wire format matches. Never throws. */
export function assembleStream(stream: EventStream, source: StreamSource) {
  // An error may be the only event, or the last one of a reply that began without an error.
  const failed = stream.events.find(isError);
  const others = stream.events.filter((event) => event !== failed && !isEmptyEnd(event)).map((event) => event.data);
  const objects = others.filter(isObject);
  const assembly =
    objects.length > 0
      ? assembleEvents(objects, source)
      : source === 'events' && others.length > 0 && others.every((data) => typeof data === 'string')
        ? { value: { generated_text: textOf(others) }, ended: undefined }
        : undefined;
  if (failed === undefined) {
    if (assembly === undefined) return undefined;
    const ended = stream.done || assembly.ended;
    return { value: assembly.value, ended, notes: endNotes(ended) };
  }
  if (assembly !== undefined) {
    const value = { ...assembly.value, error: errorOf(failed) };
    return { value, ended: assembly.ended, notes: ['the stream ends with an error'] };
  }
  if (source !== 'events') return undefined;
  return { value: isErrorBody(failed.data) ? failed.data : { error: errorOf(failed) }, ended: undefined, notes: [] };
}

/** Replicate ends a stream of bare texts with an empty event. */
const isEmptyEnd = ({ event, data }: StreamEvent): boolean =>
  event === 'done' && isObject(data) && Object.keys(data).length === 0;

/** Joins bare texts. When each is a JSON string, its value is used. */
function textOf(pieces: string[]): string {
  const isQuoted = (piece: string): boolean => piece.length > 1 && piece.startsWith('"') && piece.endsWith('"');
  const parsed = pieces.every(isQuoted) ? pieces.map((piece) => parseJson(piece)) : [];
  const isJson = parsed.length > 0 && parsed.every((piece) => piece.ok && typeof piece.value === 'string');
  return (isJson ? parsed.map((piece) => (piece.ok ? piece.value : '')) : pieces).join('');
}

function endNotes(ended: boolean | undefined): string[] {
  if (ended === undefined) return ['the stream has no end marker, so it may be incomplete'];
  return ended ? [] : ['the stream ends without its end marker'];
}

const isErrorBody = (body: unknown): body is JsonObject =>
  isObject(body) &&
  (isObject(body.error) ||
    body.object === 'error' ||
    (typeof body.error === 'string' && body.error !== '' && !('choices' in body) && !('token' in body)));

/** Recognizes an error event by its name, by its content, or by a form that a vendor uses only for errors. */
export const isError = ({ event, data }: StreamEvent): boolean =>
  event === 'error' ||
  isErrorBody(data) ||
  (isObject(data) && (data.type === 'error' || (readError(data) !== undefined && readDelta(data) === undefined)));

function errorOf({ data }: StreamEvent): JsonObject {
  if (!isObject(data)) return { message: data };
  if (isObject(data.error)) return data.error;
  const told = readError(data);
  if (told !== undefined) return { ...told };
  // `type: error` marks the event. It is not the type of the error.
  const { type, ...others } = data;
  return { ...others, ...(type === 'error' ? {} : { type }), message: data.message ?? data.error };
}
