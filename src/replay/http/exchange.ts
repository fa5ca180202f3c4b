/** A request on the wire, its reply, and the times of both. */
import * as zlib from 'node:zlib';
import type { ResponseSink } from './response-parser.ts';

/** Reason why a request has no complete reply, with AIPerf's `code` and `type`. */
export interface ExchangeError {
  /** HTTP status; 499 for a canceled request; absent without a status. */
  code?: number;
  type: string;
  message: string;
}

/**
 * Replies up to this size are kept, to read their content. For larger replies only the size is known. SageMaker's limit
 * is 25 MB.
 */
export const MAX_KEPT_BYTES = 32 * 1024 * 1024;

type Decoder = (bytes: Buffer, limit: { maxOutputLength: number }) => Buffer;

/** HTTP's deflate is the zlib format, but some servers send raw deflate. A zlib header has method 8 in its first byte. */
const inflate: Decoder = (bytes, limit) =>
  ((bytes[0] ?? 0) & 0x0f) === 8 ? zlib.inflateSync(bytes, limit) : zlib.inflateRawSync(bytes, limit);

/** A replay does not request a content coding, but a server may still use one. */
const DECODERS = new Map<string, Decoder>([
  ['gzip', zlib.gunzipSync],
  ['x-gzip', zlib.gunzipSync],
  ['deflate', inflate],
  ['br', zlib.brotliDecompressSync],
  ['zstd', zlib.zstdDecompressSync],
]);

/** Returns the codings of a reply's body, in the order in which they were applied. */
export function codingsOf(headers: ReadonlyMap<string, string>): readonly string[] {
  const content = headers.get('content-encoding');
  const transfer = headers.get('transfer-encoding');
  if (content === undefined && (transfer === undefined || transfer === 'chunked')) return [];
  const all = `${content ?? ''},${transfer ?? ''}`.toLowerCase().split(',');
  return all.map((one) => one.trim()).filter((one) => one !== '' && one !== 'identity' && one !== 'chunked');
}

/** Receives the pieces of a streamed reply's body. `at` is when the piece arrived, ms of `performance.now()`. */
export interface BodyReader {
  piece(bytes: Buffer, at: number): void;
}

/**
 * One request on the wire, with its measurements. All times are milliseconds of `performance.now()`; NaN means that the event
 * did not happen.
 */
export class Exchange implements ResponseSink {
  /** Head and body, as sent. */
  readonly wire: Buffer;
  readonly #onDone: (exchange: Exchange) => void;
  /** Opens a reader for replies that are read while they arrive. */
  readonly #openReader: ((status: number, headers: Map<string, string>) => BodyReader | undefined) | undefined;

  /** The connection that carries the request. */
  connection: { destroy(): void } | undefined;
  /** Time at which the connection pool received the request. */
  startedAt = Number.NaN;
  /** Time at which the reply's headers were complete. */
  headAt = Number.NaN;
  lastByteAt = Number.NaN;
  endAt = Number.NaN;

  status = 0;
  reason = '';
  headers: Map<string, string> = new Map();
  bodyBytes = 0;
  reader: BodyReader | undefined;
  #kept: Buffer[] = [];
  #unpacked: Buffer | undefined;
  /** Whether the reply was too large to be kept. */
  tooLarge = false;
  /** Reason why the body could not be decompressed; set when `body` is read. */
  undecoded: string | undefined;
  /** Whether only the end of the connection marked the end of the reply. */
  endedByClose = false;
  error: ExchangeError | undefined;
  done = false;

  constructor(
    wire: Buffer,
    onDone: (exchange: Exchange) => void,
    openReader?: (status: number, headers: Map<string, string>) => BodyReader | undefined,
  ) {
    this.wire = wire;
    this.#onDone = onDone;
    this.#openReader = openReader;
  }

  /** The decompressed body of the reply; empty if a reader received it or if it is too large to be kept. */
  get body(): Buffer {
    if (this.#kept.length > 1) this.#kept = [Buffer.concat(this.#kept)];
    const bytes = this.#kept[0] ?? Buffer.alloc(0);
    const codings = codingsOf(this.headers);
    if (codings.length === 0 || bytes.length === 0 || !this.done) return bytes;
    this.#unpacked ??= this.#unpack(bytes, codings);
    return this.#unpacked;
  }

  /** Returns the bytes unchanged if they cannot be decompressed. */
  #unpack(bytes: Buffer, codings: readonly string[]): Buffer {
    let unpacked = bytes;
    for (const coding of codings.toReversed()) {
      const decode = DECODERS.get(coding);
      try {
        if (!decode) throw new Error('it is not supported');
        unpacked = decode(unpacked, { maxOutputLength: MAX_KEPT_BYTES });
      } catch (error) {
        this.tooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
        if (this.tooLarge) return Buffer.alloc(0);
        this.undecoded = `its content coding ${JSON.stringify(coding.slice(0, 40))} could not be decoded: ${(error as Error).message}`;
        return bytes;
      }
    }
    return unpacked;
  }

  /** Records when bytes were received, before they are parsed. */
  received(at: number): void {
    this.lastByteAt = at;
  }

  onHead(status: number, headers: Map<string, string>, reason: string): void {
    this.headAt = this.lastByteAt;
    this.status = status;
    this.reason = reason;
    this.headers = headers;
    this.reader = this.#openReader?.(status, headers);
  }

  onBody(buffer: Buffer, start: number, end: number): void {
    this.bodyBytes += end - start;
    if (this.reader) {
      this.reader.piece(buffer.subarray(start, end), this.lastByteAt);
    } else if (this.bodyBytes <= MAX_KEPT_BYTES) {
      this.#kept.push(Buffer.from(buffer.subarray(start, end)));
    } else {
      this.#kept = [];
      this.tooLarge = true;
    }
  }

  onEnd(): void {
    this.finish(this.lastByteAt);
  }

  /** Cancels the request and closes its connection, since the reply may still arrive. */
  abort(error: ExchangeError): void {
    this.finish(performance.now(), error);
    this.connection?.destroy();
  }

  /** Ends the exchange. Later calls have no effect. */
  finish(at: number, error?: ExchangeError): void {
    if (this.done) return;
    this.done = true;
    this.endAt = at;
    this.error = error;
    this.#onDone(this);
  }

  /** Frees the bytes of the reply after they have been read. */
  release(): void {
    this.connection = undefined;
    this.#kept = [];
    this.#unpacked = undefined;
    this.reader = undefined;
  }
}
