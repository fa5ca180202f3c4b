/** Notes when each piece of a streamed reply arrived. What the reply says is read when it is over, as captured ones are. */
import { parseContentType } from '../../formats/content-type.ts';
import { addEvent, noEvents, unframed } from '../../formats/stream/events.ts';
import { StreamFraming } from '../../formats/stream/framing.ts';
import { readDelta } from '../../formats/wire/registry.ts';
import { type BodyReader, MAX_KEPT_BYTES } from '../http/exchange.ts';
import { EventStreamParser } from './aws-event-stream.ts';
import { type Usage, usageIn } from './content.ts';

/** Types that a stream comes as besides JSON Lines, and server-sent events, which are told by what they begin with. */
const STREAM_TYPES = new Set<unknown>(['application/octet-stream', 'text/plain']);

/** Takes the bytes of the reply. Times are milliseconds of `performance.now()`. */
export class StreamReader implements BodyReader {
  readonly contentType: string | null;
  /** When each piece with content arrived; where the reply is too large the last one's time stands for all further ones. */
  contentAt: number[] = [];
  /** Pieces with content. */
  pieces = 0;
  /** It was larger than what is kept: what it said is not known, its times and its counts are. */
  tooLarge = false;
  /** Of a reply that is too large, as far as it counts its tokens at its end. */
  usage: Usage | undefined;
  /** When the first piece that is no reasoning arrived; NaN while there is none. */
  firstOutputAt = Number.NaN;
  /** The events themselves, where they are kept. */
  readonly raw: { at: number; data: string }[] = [];
  /** Why the stream is broken, in words. */
  problem: string | undefined;
  readonly #keepRaw: boolean;
  readonly #framing: StreamFraming;
  readonly #read = noEvents();
  /** When events of a form that is not known arrived. */
  #otherAt: number[] = [];
  #kept: Buffer[] = [];
  #bytes = 0;
  #at = 0;

  /**
   * @param contentType of the reply
   * @param keepRaw keep every event as it came
   */
  constructor(contentType: string | null, keepRaw = false) {
    this.contentType = contentType;
    this.#keepRaw = keepRaw;
    this.#framing = new StreamFraming({
      contentType,
      maxChars: MAX_KEPT_BYTES,
      onEvent: (data, name) => this.#event(data, name),
      onTooLong: () => this.#add(false),
    });
  }

  /** Whether it came as a stream: a server may answer with one document whatever it was asked for. */
  get isStream(): boolean {
    const { announces, media } = parseContentType(this.contentType);
    return this.#framing.form === 'events' || announces === 'jsonlines' || STREAM_TYPES.has(media);
  }

  /** The reply as it came; empty when it is too large. */
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
      this.raw.length = 0;
    }
    this.#attempt(() => this.#framing.feed(bytes));
  }

  /** The reply is complete. */
  end(): void {
    if (!this.problem) this.#attempt(() => this.#framing.end());
    if (this.pieces > 0) return;
    this.contentAt = this.#otherAt;
    this.pieces = this.#otherAt.length;
    this.firstOutputAt = this.#otherAt[0] ?? Number.NaN;
  }

  /** What went wrong came in the middle of the connection's work, where nobody else would take it. */
  #attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.problem = `it cannot be read: ${(error as Error).name}`;
    }
  }

  #event(data: string, name: string | undefined): void {
    if (this.#keepRaw && !this.tooLarge) this.raw.push({ at: this.#at, data });
    if (this.#framing.form === 'text') {
      this.#add(true);
      return;
    }
    for (const event of addEvent(this.#read, data, name)) this.#take(unframed(event.data));
    this.#read.events.length = 0;
  }

  #take(document: unknown): void {
    if (this.tooLarge) this.usage = usageIn(document) ?? this.usage;
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

/** What the runtime's frames hold where it does not say. */
const INNER_TYPE = 'text/event-stream';

/** The same inside the frames of InvokeEndpointWithResponseStream. */
export class SageMakerStreamReader implements BodyReader {
  readonly inner: StreamReader;
  /** That the service has put in place of the rest. */
  error: { type: string; message: string } | undefined;
  #at = 0;
  readonly #frames = new EventStreamParser(({ headers, payload }) => {
    if (headers[':message-type'] === 'event') {
      if (headers[':event-type'] === 'PayloadPart') this.inner.piece(payload, this.#at);
      return;
    }
    const type = headers[':exception-type'] ?? headers[':error-code'] ?? 'StreamError';
    this.error = { type, message: headers[':error-message'] ?? payload.toString('utf8') };
  });

  /**
   * @param contentType of what the frames hold
   * @param keepRaw keep every event as it came
   */
  constructor(contentType: string = INNER_TYPE, keepRaw = false) {
    this.inner = new StreamReader(contentType, keepRaw);
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
