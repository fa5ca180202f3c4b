/** Records when each piece of a streamed reply arrives. The content is read at the end, like that of a captured reply. */
import { parseContentType } from '../../captures/content-type.ts';
import { tokenUsageOf } from '../../captures/meaning/interpret.ts';
import { addEvent, noEvents, StreamFraming, unframed } from '../../captures/stream/framing.ts';
import type { TokenUsage } from '../../captures/types.ts';
import { readDelta } from '../../captures/wire/registry.ts';
import { type BodyReader, MAX_KEPT_BYTES } from '../http/exchange.ts';
import { EventStreamParser } from './aws-event-stream.ts';

/** Content types of streams other than JSON Lines. Server-sent events are recognized by their first characters. */
const STREAM_TYPES = new Set<unknown>(['application/octet-stream', 'text/plain']);

/** Receives the bytes of the reply. Times are milliseconds of `performance.now()`. */
export class StreamReader implements BodyReader {
  readonly contentType: string | null;
  /** Arrival times of the pieces with content. When the reply is too large, the last entry is the time of the latest one. */
  contentAt: number[] = [];
  /** Number of pieces with content. */
  pieces = 0;
  /** The reply exceeds the limit: its times and counts are known, its content is not kept. */
  tooLarge = false;
  /** Token usage of a reply that is too large, if one of its events has it. */
  usage: TokenUsage | undefined;
  /** When the first piece that is not reasoning arrived. NaN before that. */
  firstOutputAt = Number.NaN;
  /** Why the stream is broken, as text. */
  problem: string | undefined;
  readonly #framing: StreamFraming;
  readonly #read = noEvents();
  /** Arrival times of events of an unknown form. */
  #otherAt: number[] = [];
  #kept: Buffer[] = [];
  #bytes = 0;
  #at = 0;

  /** @param contentType content type of the reply */
  constructor(contentType: string | null) {
    this.contentType = contentType;
    this.#framing = new StreamFraming({
      contentType,
      maxChars: MAX_KEPT_BYTES,
      onEvent: (data, name) => this.#event(data, name),
      onTooLong: () => this.#add(false),
    });
  }

  /** Whether the reply came as a stream. A server may answer with one document, whatever the request asks for. */
  get isStream(): boolean {
    const { announces, media } = parseContentType(this.contentType);
    return this.#framing.form === 'events' || announces === 'jsonlines' || STREAM_TYPES.has(media);
  }

  /** The reply as it arrived. Empty when it is too large. */
  get body(): Buffer {
    if (this.#kept.length > 1) this.#kept = [Buffer.concat(this.#kept)];
    return this.#kept[0] ?? Buffer.alloc(0);
  }

  piece(bytes: Buffer, at: number): void {
    this.#at = at;
    if (this.problem) return;
    this.#bytes += bytes.length;
    if (this.#bytes <= MAX_KEPT_BYTES) this.#kept.push(Buffer.from(bytes));
    else if (!this.tooLarge) {
      this.tooLarge = true;
      this.#kept = [];
    }
    this.#attempt(() => this.#framing.feed(bytes));
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

  #event(data: string, name: string | undefined): void {
    if (this.#framing.form === 'text') {
      this.#add(true);
      return;
    }
    for (const event of addEvent(this.#read, data, name)) this.#consume(unframed(event.data));
    this.#read.events.length = 0;
  }

  #consume(document: unknown): void {
    if (this.tooLarge) this.usage = tokenUsageOf(document) ?? this.usage;
    const delta = readDelta(document);
    if (delta === undefined) this.#otherAt.push(this.#at);
    else if (delta.output !== '' || delta.calls) this.#add(true);
    else if (delta.reasoning !== '') this.#add(false);
  }

  #add(isOutput: boolean): void {
    this.pieces++;
    if (this.tooLarge && this.contentAt.length > 1) this.contentAt[this.contentAt.length - 1] = this.#at;
    else this.contentAt.push(this.#at);
    if (isOutput && Number.isNaN(this.firstOutputAt)) this.firstOutputAt = this.#at;
  }
}

/** Content type inside the runtime's frames, unless they have their own. */
const INNER_TYPE = 'text/event-stream';

/** Does the same inside the frames of InvokeEndpointWithResponseStream. */
export class SageMakerStreamReader implements BodyReader {
  readonly inner: StreamReader;
  /** An error that the service sent instead of the rest. */
  error: { type: string; message: string } | undefined;
  #at = 0;
  readonly #frames = new EventStreamParser(({ headers, payload }) => {
    const header = (name: string): string | undefined => headers[name]?.value.toString();
    if (header(':message-type') === 'event') {
      if (header(':event-type') === 'PayloadPart') this.inner.piece(payload, this.#at);
      return;
    }
    const type = header(':exception-type') ?? header(':error-code') ?? 'StreamError';
    this.error = { type, message: header(':error-message') ?? payload.toString('utf8') };
  });

  /** @param contentType content type inside the frames */
  constructor(contentType: string = INNER_TYPE) {
    this.inner = new StreamReader(contentType);
  }

  piece(bytes: Buffer, at: number): void {
    if (this.inner.problem) return;
    this.#at = at;
    try {
      this.#frames.feed(bytes);
    } catch (error) {
      this.inner.problem = (error as Error).message;
    }
  }

  end(): void {
    if (!this.inner.problem && !this.#frames.complete) this.inner.problem = 'the event stream stops inside a message';
    this.inner.end();
  }
}
