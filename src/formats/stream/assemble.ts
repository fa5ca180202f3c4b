/**
 * Puts the events of a streamed reply together to the document that the same server would have sent unstreamed, so
 * that all behind it reads streamed and unstreamed replies alike.
 */
import { isObject, type JsonObject, parseJson } from '../json.ts';
import { assembleEvents, readDelta, readError, type StreamSource } from '../wire/registry.ts';
import type { EventStream, StreamEvent } from './events.ts';

interface Assembled {
  value: unknown;
  /** As in `Assembly`. */
  ended: boolean | undefined;
  notes: string[];
}

/** @returns `undefined` when no dialect fits; never throws. */
export function assembleStream(stream: EventStream, source: StreamSource): Assembled | undefined {
  // An error may be the only event, or the last one of a reply that began well.
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

/** Replicate's last event, behind bare texts. */
const isEmptyEnd = ({ event, data }: StreamEvent): boolean =>
  event === 'done' && isObject(data) && Object.keys(data).length === 0;

/** Bare texts; where each is written as JSON, what that says. */
function textOf(pieces: string[]): string {
  const isQuoted = (piece: string): boolean => piece.length > 1 && piece.startsWith('"') && piece.endsWith('"');
  const parsed = pieces.every(isQuoted) ? pieces.map((piece) => parseJson(piece)) : [];
  const isJson = parsed.length > 0 && parsed.every((piece) => piece.ok && typeof piece.value === 'string');
  return (isJson ? parsed.map((piece) => (piece.ok ? piece.value : '')) : pieces).join('');
}

function endNotes(ended: boolean | undefined): string[] {
  if (ended === undefined) return ['the stream does not tell its end: whether it is whole is not known'];
  return ended ? [] : ['the stream breaks off before its end was told'];
}

const isErrorBody = (body: unknown): body is JsonObject =>
  isObject(body) &&
  (isObject(body.error) ||
    body.object === 'error' ||
    (typeof body.error === 'string' && body.error !== '' && !('choices' in body) && !('token' in body)));

/** By its name, by what it holds, or by a form that one vendor has for errors alone. */
const isError = ({ event, data }: StreamEvent): boolean =>
  event === 'error' ||
  isErrorBody(data) ||
  (isObject(data) && (data.type === 'error' || (readDelta(data) === undefined && readError(data) !== undefined)));

function errorOf({ data }: StreamEvent): JsonObject {
  if (!isObject(data)) return { message: data };
  if (isObject(data.error)) return data.error;
  const told = readError(data);
  if (told !== undefined) return { ...told };
  // `type: error` marks the event; it is not the type of the error.
  const { type, ...others } = data;
  return { ...others, ...(type === 'error' ? {} : { type }), message: data.message ?? data.error };
}
