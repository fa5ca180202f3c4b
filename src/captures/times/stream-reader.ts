/** Finds when each piece of a streamed reply's content arrived. Captured and live streams are both read with this. */
import { parseContentType } from '../content-type.ts';
import { isObject, parseJson } from '../json.ts';
import { tokenUsageOf } from '../meaning/interpret.ts';
import { decodeText } from '../payload/charset.ts';
import { isError } from '../stream/assemble.ts';
import { addEvent, noEvents, StreamFraming, unframed } from '../stream/framing.ts';
import type { TokenUsage } from '../types.ts';
import { readDelta } from '../wire/registry.ts';

/** Content types of streams of text. Server-sent events and JSON Lines are recognized by their first characters. */
const STREAM_TYPES = new Set<unknown>(['application/octet-stream', 'text/plain']);

/** Receives the bytes of the reply. Times are milliseconds of any clock. */
export class StreamReader {
  readonly contentType: string | null;
  /** Arrival times of the pieces with content. When the reply is too large, the last entry is the time of the latest one. */
  contentAt: number[] = [];
  /** Number of pieces with content. */
  pieces = 0;
  /** Set if the reply exceeds the limit: its times and counts are known, its content is not kept. */
  tooLarge = false;
  /** Token usage of a reply that is too large, if an event contains it. */
  usage: TokenUsage | undefined;
  /** Arrival time of the first piece that is not reasoning. NaN before that. */
  firstOutputAt = Number.NaN;
  /** Describes how the stream is broken. */
  problem: string | undefined;
  readonly #maxBytes: number;
  readonly #framing: StreamFraming;
  readonly #read = noEvents();
  /** Arrival times of events of an unknown form. */
  #otherAt: number[] = [];
  #events = 0;
  /** Whether the first line is a JSON object. */
  #isOfObjects = false;
  #kept: Buffer[] = [];
  #bytes = 0;
  #at = 0;

  /**
   * @param contentType content type of the reply
   * @param maxBytes of a reply that is kept
   */
  constructor(contentType: string | null, maxBytes: number) {
    this.contentType = contentType;
    this.#maxBytes = maxBytes;
    this.#framing = new StreamFraming({
      contentType,
      maxChars: maxBytes,
      onEvent: (data, name, at) => this.#event(data, name, at),
      onTooLong: () => this.#add(false, this.#at),
    });
  }

  /**
   * Whether the reply is a stream of text. A server may answer with one document or with bytes, even if the request
   * asks for a stream.
   */
  get isStream(): boolean {
    const { form } = this.#framing;
    const { announces, media, charset } = parseContentType(this.contentType);
    if (form === 'events' || announces === 'jsonlines') return true;
    if (form === 'lines') return this.#isOfObjects && this.#events > 1;
    if (!STREAM_TYPES.has(media)) return false;
    const decoded = decodeText(this.body, charset, announces === 'text');
    return !('binary' in decoded) && !(decoded.text.trimStart().startsWith('[') && parseJson(decoded.text).ok);
  }

  /** Whether the first piece with content has arrived, so that further pieces cannot change its time. */
  get hasFirst(): boolean {
    return this.pieces > 0 && this.#framing.form !== 'text' && this.isStream;
  }

  /** The reply as it arrived. Empty when it is too large. */
  get body(): Buffer {
    if (this.#kept.length > 1) this.#kept = [Buffer.concat(this.#kept)];
    return this.#kept[0] ?? Buffer.alloc(0);
  }

  /** @param bytes valid only during the call */
  piece(bytes: Buffer, at: number): void {
    this.#at = at;
    if (this.problem) return;
    this.#bytes += bytes.length;
    if (this.#bytes <= this.#maxBytes) this.#kept.push(Buffer.from(bytes));
    else if (!this.tooLarge) {
      this.tooLarge = true;
      this.#kept = [];
    }
    this.#attempt(() => this.#framing.feed(bytes, at));
  }

  /** Ends the reply. */
  end(): void {
    if (!this.problem) this.#attempt(() => this.#framing.end());
    if (this.pieces > 0) return;
    this.contentAt = this.#otherAt;
    this.pieces = this.#otherAt.length;
    this.firstOutputAt = this.#otherAt[0] ?? Number.NaN;
  }

  /** Keeps an error as a problem. It occurs while the connection is read, where no caller would handle it. */
  #attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.problem = `it cannot be read: ${(error as Error).name}`;
    }
  }

  #event(data: string, name: string | undefined, at: number): void {
    this.#events++;
    if (this.#framing.form === 'text') {
      this.#add(true, at);
      return;
    }
    const events = addEvent(this.#read, data, name);
    if (this.#events === 1) this.#isOfObjects = isObject(events[0]?.data);
    for (const event of events) {
      if (this.pieces > 0 || !isError(event)) this.#consume(unframed(event.data), at);
    }
    this.#read.events.length = 0;
  }

  #consume(document: unknown, at: number): void {
    if (this.tooLarge) this.usage = tokenUsageOf(document) ?? this.usage;
    const delta = readDelta(document);
    if (delta === undefined) this.#otherAt.push(at);
    else if (delta.output !== '' || delta.calls) this.#add(true, at);
    else if (delta.reasoning !== '') this.#add(false, at);
  }

  #add(isOutput: boolean, at: number): void {
    this.pieces++;
    if (this.tooLarge && this.contentAt.length > 1) this.contentAt[this.contentAt.length - 1] = at;
    else this.contentAt.push(at);
    if (isOutput && Number.isNaN(this.firstOutputAt)) this.firstOutputAt = at;
  }
}
