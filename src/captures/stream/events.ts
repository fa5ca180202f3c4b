/** Reads server-sent events, as models stream their replies. */
import { isObject, parseJson } from '../json.ts';
import { StreamFraming } from './framing.ts';

export interface StreamEvent {
  /** The event's name, if the stream has one. */
  event?: string;
  /** The parsed JSON document, or the text when it is not JSON. */
  data: unknown;
}

export interface EventStream {
  events: StreamEvent[];
  /** The stream's own end marker was found. */
  done: boolean;
  /** Number of events whose JSON is truncated or malformed. They are left out. */
  broken: number;
}

const FIELD = /^(?:data|event|id|retry):/;

/**
 * Whether a text begins like a stream of events.
 *
 * @param isAnnounced comments alone then are a stream, without an event
 */
export function looksLikeEventStream(text: string, isAnnounced = false): boolean {
  for (const line of text.slice(0, 65_536).split(/\r\n|\n|\r/)) {
    if (line.trim() === '' || line.startsWith(':')) continue;
    if (!FIELD.test(line)) return false;
    if (line.startsWith('data:')) return true;
  }
  return isAnnounced;
}

/** Reads the events. The last one may lack its blank line. Never throws. */
export function parseEventStream(text: string): EventStream {
  const stream = noEvents();
  const framing = new StreamFraming({ form: 'events', onEvent: (data, name) => addEvent(stream, data, name) });
  framing.feed(text);
  framing.end();
  return stream;
}

export const noEvents = (): EventStream => ({ events: [], done: false, broken: 0 });

/**
 * Adds the data from `StreamFraming`: one event, or several that came as one. Never throws.
 *
 * @returns the added events: none for the end marker and for an unreadable event.
 */
export function addEvent(stream: EventStream, data: string, name?: string): StreamEvent[] {
  const parsed = readData(data);
  // Some servers omit the blank line between two events.
  if (parsed === undefined && data.includes('\n')) {
    return data.split('\n').flatMap((line) => addEvent(stream, line, name));
  }
  if (data.trim() === '[DONE]') stream.done = true;
  else if (parsed === undefined) stream.broken += 1;
  else {
    const event = { event: name, data: parsed };
    stream.events.push(event);
    return [event];
  }
  return [];
}

/**
 * Returns the document of a Bedrock event that an SDK wrote down in base64 under `bytes`. Other values are unchanged.
 *
 * @param count receives the text before it is parsed.
 */
export function unframed(value: unknown, count?: (text: string) => void): unknown {
  if (!isObject(value)) return value;
  const { bytes } = isObject(value.chunk) ? value.chunk : value;
  if (typeof bytes !== 'string') return value;
  const text = Buffer.from(bytes, 'base64').toString();
  if (!text.startsWith('{')) return value;
  count?.(text);
  const parsed = parseJson(text);
  return parsed.ok ? parsed.value : value;
}

/** Returns the document, or the text when it does not begin like one. `undefined` for malformed JSON. */
function readData(text: string): unknown {
  const first = text.trimStart()[0];
  if (first !== '{' && first !== '[') return text;
  const parsed = parseJson(text);
  if (parsed.ok) return parsed.value;
  return text.trim() === '[DONE]' ? text : undefined;
}
