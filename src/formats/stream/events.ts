/** Server-sent events, as models stream their replies. */
import { isObject, parseJson } from '../json.ts';
import { StreamFraming } from './framing.ts';

export interface StreamEvent {
  /** The event's name, where the stream gives one. */
  event?: string;
  /** The parsed JSON document, or the text where it is none. */
  data: unknown;
}

export interface EventStream {
  events: StreamEvent[];
  /** The stream's own end marker was seen. */
  done: boolean;
  /** Events whose JSON is cut off or malformed; they are left out. */
  broken: number;
}

const FIELD = /^(?:data|event|id|retry):/;

/** Whether a text begins as a stream of events does. */
export function looksLikeEventStream(text: string): boolean {
  for (const line of text.slice(0, 65_536).split(/\r\n|\n|\r/)) {
    if (line.trim() === '' || line.startsWith(':')) continue;
    if (!FIELD.test(line)) return false;
    if (line.startsWith('data:')) return true;
  }
  return false;
}

/** Reads the events; a last one without its blank line counts as well. Never throws. */
export function parseEventStream(text: string): EventStream {
  const stream = noEvents();
  const framing = new StreamFraming({ form: 'events', onEvent: (data, name) => addEvent(stream, data, name) });
  framing.feed(text);
  framing.end();
  return stream;
}

export const noEvents = (): EventStream => ({ events: [], done: false, broken: 0 });

/**
 * Adds what `StreamFraming` gave: an event, or several that came as one. Never throws.
 *
 * @returns what was added: nothing for the end's mark and for an event that cannot be read.
 */
export function addEvent(stream: EventStream, data: string, name?: string): StreamEvent[] {
  const parsed = readData(data);
  // Some servers leave the blank line between two events out.
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
 * The document of an event of Bedrock's as SDKs write it down: in base64, under `bytes`.
 *
 * @param count is told the text before it is taken apart.
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

/** `undefined`: it begins as a JSON document and is none. */
function readData(text: string): unknown {
  const first = text.trimStart()[0];
  if (first !== '{' && first !== '[') return text;
  const parsed = parseJson(text);
  if (parsed.ok) return parsed.value;
  return text.trim() === '[DONE]' ? text : undefined;
}
