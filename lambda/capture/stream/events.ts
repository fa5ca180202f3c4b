/** Server-sent events, as models stream their replies. */
import { parseJson } from '../json.ts';

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

const withoutField = (line: string, field: string): string => {
  const value = line.slice(field.length + 1);
  return value.startsWith(' ') ? value.slice(1) : value;
};

/** Reads the events; a last one without its blank line counts as well. Never throws. */
export function parseEventStream(text: string): EventStream {
  const stream: EventStream = { events: [], done: false, broken: 0 };
  let name: string | undefined;
  let data: string[] = [];
  const dispatch = (): void => {
    if (data.length > 0) addEvent(stream, name, data);
    name = undefined;
    data = [];
  };
  for (const line of text.split(/\r\n|\n|\r/)) {
    if (line === '') dispatch();
    else if (line.startsWith('data:')) data.push(withoutField(line, 'data'));
    else if (line.startsWith('event:')) name = withoutField(line, 'event').trim();
  }
  dispatch();
  return stream;
}

function addEvent(stream: EventStream, name: string | undefined, data: string[]): void {
  const whole = data.join('\n');
  const parsed = readData(whole);
  // Some servers leave the blank line between two events out.
  if (parsed === undefined && data.length > 1) {
    for (const line of data) addEvent(stream, name, [line]);
    return;
  }
  if (whole.trim() === '[DONE]') stream.done = true;
  else if (parsed === undefined) stream.broken += 1;
  else stream.events.push({ ...(name === undefined ? {} : { event: name }), data: parsed });
}

/** `undefined`: it begins as a JSON document and is none. */
function readData(text: string): unknown {
  const first = text.trimStart()[0];
  if (first !== '{' && first !== '[') return text;
  const parsed = parseJson(text);
  if (parsed.ok) return parsed.value;
  return text.trim() === '[DONE]' ? text : undefined;
}
