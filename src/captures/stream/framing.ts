/**
 * Splits a streamed reply into its pieces as they arrive: server-sent events, JSON Lines, or plain text; and reads the
 * events. Captured and live streams are both read with this.
 * https://html.spec.whatwg.org/multipage/server-sent-events.html
 */

import { TextDecoder } from 'node:util';
import { decoderOf, parseContentType } from '../content-type.ts';
import { isObject, parseJson } from '../json.ts';

type StreamForm = 'events' | 'lines' | 'text';

export interface FramingOptions {
  /**
   * Receives an event's data (or a line, or a part of the text), its name, if any, and the arrival time of its last
   * byte.
   */
  onEvent(data: string, name: string | undefined, at: number): void;
  /** Called instead of `onEvent` for an event that is longer than `maxChars`. */
  onTooLong?(): void;
  /** Maximum characters of an event. Default: unlimited. */
  maxChars?: number;
  /** Content type of the reply. Announced events are read as events, however the text begins. */
  contentType?: string | null;
  /** The form of the stream, if it is already known. */
  form?: StreamForm;
}

/** The beginnings of server-sent events. A comment has no name. */
const FIELDS = ['data:', 'event:', 'id:', 'retry:', ':'];
const LONGEST_FIELD = 'event:'.length;

/** Accepts the text of a stream in pieces of any size, and emits each event as soon as it is complete. */
export class StreamFraming {
  /** `undefined` until the first characters decide. */
  form: StreamForm | undefined;
  readonly #options: FramingOptions;
  readonly #mostChars: number;
  readonly #decoder: TextDecoder;
  readonly #announced: StreamForm | undefined;
  /** The first characters, until they decide the form; then the beginning of a line. */
  #held = '';
  /** Set if the last piece ended with a carriage return. A line feed that follows belongs to it. */
  #afterReturn = false;
  #name: string | undefined;
  #data: string[] = [];
  #dataChars = 0;
  /** Arrival times of the current piece, of the first characters, and of the last line of an event's data. */
  #at = 0;
  #headAt = 0;
  #dataAt = 0;
  /** The held data was checked already, and is not a whole document. */
  #isLookedAt = false;

  constructor(options: FramingOptions) {
    this.#options = options;
    this.#mostChars = options.maxChars ?? Number.POSITIVE_INFINITY;
    this.form = options.form;
    const { announces, charset } = parseContentType(options.contentType);
    this.#announced = announces === 'event-stream' ? 'events' : announces === 'jsonlines' ? 'lines' : undefined;
    this.#decoder = decoderOf(charset ?? 'utf-8', false) ?? new TextDecoder();
  }

  /**
   * @param piece valid only during the call.
   * @param at when it came, by any clock.
   */
  feed(piece: Buffer | string, at = 0): void {
    if (piece.length > 0) this.#at = at;
    this.#consume(typeof piece === 'string' ? piece : this.#decoder.decode(piece, { stream: true }));
  }

  /** Ends the stream. A last event without its blank line counts too. */
  end(): void {
    this.#consume(this.#decoder.decode());
    if (this.form === undefined && this.#held.trim() !== '') this.#begin(this.#announced ?? 'text');
    if (this.form === undefined || this.form === 'text') return;
    if (this.#held !== '') this.#line('');
    this.#dispatch(this.#dataAt);
  }

  #consume(text: string): void {
    if (text === '') return;
    if (this.form === 'text') this.#options.onEvent(text, undefined, this.#at);
    else if (this.form !== undefined) this.#split(text);
    else {
      if (this.#held === '') this.#headAt = this.#at;
      this.#held += text;
      const form = formOf(this.#held);
      if (form !== undefined) this.#begin(form === 'text' ? (this.#announced ?? form) : form);
    }
  }

  #begin(form: StreamForm): void {
    const head = this.#held;
    this.#held = '';
    this.form = form;
    if (form === 'text') this.#options.onEvent(head, undefined, this.#headAt);
    else this.#split(head);
  }

  /** Lines end with a line feed, a carriage return, or both. Each ending is searched for once. */
  #split(text: string): void {
    let at = this.#afterReturn && text.startsWith('\n') ? 1 : 0;
    this.#afterReturn = text.endsWith('\r');
    let feed = text.indexOf('\n', at);
    let back = text.indexOf('\r', at);
    while (feed !== -1 || back !== -1) {
      const end = feed === -1 || (back !== -1 && back < feed) ? back : feed;
      this.#line(text.slice(at, end));
      at = end === back && feed === end + 1 ? end + 2 : end + 1;
      if (feed !== -1 && feed < at) feed = text.indexOf('\n', at);
      if (back !== -1 && back < at) back = text.indexOf('\r', at);
    }
    if (at < text.length) this.#hold(text.slice(at));
  }

  /** Keeps one character more than is allowed, which shows that there were too many. */
  #hold(piece: string): void {
    if (this.#held.length <= this.#mostChars) this.#held += piece;
  }

  #line(last: string): void {
    let line = last;
    if (this.#held !== '') {
      this.#hold(last);
      line = this.#held;
      this.#held = '';
    }
    const isTooLong = line.length > this.#mostChars;
    if (this.form === 'lines') {
      if (isTooLong) this.#options.onTooLong?.();
      else if (line.trim() !== '') this.#options.onEvent(line, undefined, this.#at);
    } else if (line === '') this.#dispatch();
    else if (line.startsWith('data:')) this.#add(isTooLong ? line : fieldValue(line, 'data:'));
    else if (line.startsWith('event:')) {
      this.#dispatchDocument();
      this.#name = fieldValue(line, 'event:').trim();
    } else if (line.startsWith('error:')) {
      // llama.cpp has a separate field for errors.
      this.#dispatchDocument();
      this.#name = 'error';
      this.#add(isTooLong ? line : fieldValue(line, 'error:'));
    }
    // Comments, `id:` and `retry:` contain no part of a reply.
  }

  #add(value: string): void {
    this.#dispatchDocument();
    this.#dataChars += value.length;
    if (this.#dataChars > this.#mostChars) this.#data.length = 0;
    this.#data.push(value);
    this.#dataAt = this.#at;
    this.#isLookedAt = false;
  }

  /** Some servers omit the blank line between two events: a whole document is an event. */
  #dispatchDocument(): void {
    const [first] = this.#data;
    if (this.#isLookedAt || first === undefined || this.#data.length > 1) return;
    this.#isLookedAt = true;
    if (first.startsWith('{') && parseJson(first).ok) this.#dispatch(this.#dataAt);
  }

  #dispatch(at = this.#at): void {
    const isTooLong = this.#dataChars > this.#mostChars;
    const data = this.#data.length === 1 ? (this.#data[0] as string) : this.#data.join('\n');
    const isThere = this.#data.length > 0;
    const name = this.#name;
    this.#data.length = 0;
    this.#dataChars = 0;
    this.#name = undefined;
    if (isTooLong) this.#options.onTooLong?.();
    else if (isThere) this.#options.onEvent(data, name, at);
  }
}

const fieldValue = (line: string, field: string): string =>
  line.slice(line.charCodeAt(field.length) === 0x20 ? field.length + 1 : field.length);

/** Returns the form that the first characters show. `undefined` while they may still become a field's name. */
function formOf(head: string): StreamForm | undefined {
  const start = head.slice(0, 4096).trimStart();
  if (FIELDS.some((field) => start.startsWith(field))) return 'events';
  if (start.startsWith('{')) return 'lines';
  const isOpen = start.length < LONGEST_FIELD && FIELDS.some((field) => field.startsWith(start));
  return isOpen && head.length < 4096 ? undefined : 'text';
}

// ---------------------------------------------------------------------------------------------------------- events
// As models stream their replies.

export interface StreamEvent {
  /** The event's name, if it has one. */
  event?: string;
  /** The parsed JSON document, or the text when it is not JSON. */
  data: unknown;
}

export interface EventStream {
  events: StreamEvent[];
  /** The stream's own end marker was found. */
  done: boolean;
  /** Number of events that are left out because their JSON is truncated or malformed. */
  broken: number;
}

const FIELD = /^(?:data|event|id|retry):/;

/**
 * Whether a text begins like a stream of events.
 *
 * @param isAnnounced whether comments alone count as a stream without events
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
 * Adds the data from `StreamFraming`: one event, or several that arrived as one. Never throws.
 *
 * @returns the added events; empty for the end marker and for an unreadable event.
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
