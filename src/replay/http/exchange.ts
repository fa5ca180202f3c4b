import * as zlib from 'node:zlib';
import type { ResponseSink } from './response-parser.ts';

/** Why a request has no complete reply. `code` and `type` are as AIPerf records them. */
export interface ExchangeError {
  /** HTTP status; 499 for a cancelled request; absent when there was no status. */
  code?: number;
  type: string;
  message: string;
}

/** Largest reply that is kept for reading its content; of a larger one only the size is known. 32 MiB is above SageMaker's 25 MB. */
export const MAX_KEPT_BYTES = 32 * 1024 * 1024;

type Decoder = (bytes: Buffer, limit: { maxOutputLength: number }) => Buffer;

/** Meant is the zlib format, and some send deflate's own; in zlib's, the first byte tells the method, 8. */
const inflate: Decoder = (bytes, limit) =>
  ((bytes[0] ?? 0) & 0x0f) === 8 ? zlib.inflateSync(bytes, limit) : zlib.inflateRawSync(bytes, limit);

/** A replay asks for no coding, and a server may send one nevertheless. */
const DECODERS = new Map<string, Decoder | undefined>([
  ['gzip', zlib.gunzipSync],
  ['x-gzip', zlib.gunzipSync],
  ['deflate', inflate],
  ['br', zlib.brotliDecompressSync],
  // Node has it from 22.15 on.
  ['zstd', zlib.zstdDecompressSync as Decoder | undefined],
]);

const NO_CODINGS: readonly string[] = [];

/** Codings of a reply's body, in the order in which they were applied. */
export function codingsOf(headers: ReadonlyMap<string, string>): readonly string[] {
  const content = headers.get('content-encoding');
  const transfer = headers.get('transfer-encoding');
  if (content === undefined && (transfer === undefined || transfer === 'chunked')) return NO_CODINGS;
  const all = `${content ?? ''},${transfer ?? ''}`.toLowerCase().split(',');
  return all.map((one) => one.trim()).filter((one) => one !== '' && one !== 'identity' && one !== 'chunked');
}

/** Receives the body of a streamed reply piece by piece; `at` is when the piece came (ms on the monotonic clock). */
export interface BodyReader {
  piece(bytes: Buffer, at: number): void;
}

/**
 * One request on the wire and what was measured of it. All times are milliseconds of `performance.now()`; NaN is
 * "did not happen".
 */
export class Exchange implements ResponseSink {
  /** Head and body as they go on the wire. */
  readonly wire: Buffer;
  readonly #onDone: (exchange: Exchange) => void;
  /** Set for a reply that is read as it comes, from its headers on. */
  readonly #openReader: ((status: number, headers: Map<string, string>) => BodyReader | undefined) | undefined;

  /** What carries it. */
  connection: { destroy(): void } | undefined;
  /** Handed to the connection pool. */
  startedAt = Number.NaN;
  /** The connection it went out on was opened for it. */
  connectStartAt = Number.NaN;
  connectEndAt = Number.NaN;
  dnsMs = 0;
  reused = false;
  sendStartAt = Number.NaN;
  sendEndAt = Number.NaN;
  /** Headers of the reply. */
  headAt = Number.NaN;
  firstByteAt = Number.NaN;
  lastByteAt = Number.NaN;
  endAt = Number.NaN;

  status = 0;
  reason = '';
  headers: Map<string, string> = new Map();
  bytesReceived = 0;
  bodyBytes = 0;
  chunksReceived = 0;
  reader: BodyReader | undefined;
  #kept: Buffer[] = [];
  #unpacked: Buffer | undefined;
  /** The reply was larger than what is kept. */
  tooLarge = false;
  /** Why the body could not be unpacked, in words; known once it has been asked for. */
  undecoded: string | undefined;
  /** The connection's end was the reply's: nothing else told that it was complete. */
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

  /** The reply's body, unpacked; empty when it was read as it came, or is too large to be kept. */
  get body(): Buffer {
    if (this.#kept.length > 1) this.#kept = [Buffer.concat(this.#kept)];
    const bytes = this.#kept[0] ?? Buffer.alloc(0);
    const codings = codingsOf(this.headers);
    if (codings.length === 0 || bytes.length === 0 || !this.done) return bytes;
    this.#unpacked ??= this.#unpack(bytes, codings);
    return this.#unpacked;
  }

  /** Bytes that are not what the reply says they are stay as they came. */
  #unpack(bytes: Buffer, codings: readonly string[]): Buffer {
    let unpacked = bytes;
    for (const coding of codings.toReversed()) {
      const decode = DECODERS.get(coding);
      try {
        if (!decode) throw new Error('not one that is read here');
        unpacked = decode(unpacked, { maxOutputLength: MAX_KEPT_BYTES });
      } catch (error) {
        this.tooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
        if (this.tooLarge) return Buffer.alloc(0);
        this.undecoded = `its coding ${JSON.stringify(coding.slice(0, 40))} could not be undone: ${(error as Error).message}`;
        return bytes;
      }
    }
    return unpacked;
  }

  /** Bytes came in, before they are parsed. */
  received(bytes: number, at: number): void {
    if (Number.isNaN(this.firstByteAt)) this.firstByteAt = at;
    this.lastByteAt = at;
    this.bytesReceived += bytes;
    this.chunksReceived++;
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

  /** Gives the request up: the connection goes with it, since its reply may still come. */
  abort(error: ExchangeError): void {
    this.finish(performance.now(), error);
    this.connection?.destroy();
  }

  /** Ends the exchange once; later calls change nothing. */
  finish(at: number, error?: ExchangeError): void {
    if (this.done) return;
    this.done = true;
    this.endAt = at;
    this.error = error;
    this.#onDone(this);
  }

  /** Lets go of the reply's bytes once they are read. */
  release(): void {
    this.connection = undefined;
    this.#kept = [];
    this.#unpacked = undefined;
    this.reader = undefined;
  }
}
