/** A request on the wire, its reply, and the times of both. */
import type { StreamReader } from '../../captures/times/stream-reader.ts';

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

/**
 * One request on the wire, with its measurements. All times are milliseconds of `performance.now()`; NaN means that the event
 * did not happen.
 */
export class Exchange {
  /** Head and body, as sent. */
  readonly wire: Buffer;
  readonly #onDone: (exchange: Exchange) => void;
  /** Opens a reader for replies that are read while they arrive. */
  readonly #openReader: ((status: number, headers: Map<string, string>) => StreamReader | undefined) | undefined;

  /** The connection that carries the request. */
  connection: { destroy(): void } | undefined;
  /** Time at which the connection pool received the request. */
  startedAt = Number.NaN;
  /** Time at which the reply's headers were complete. */
  headAt = Number.NaN;
  /** Time at which the latest bytes were received. Set before they are parsed. */
  lastByteAt = Number.NaN;
  endAt = Number.NaN;

  status = 0;
  reason = '';
  headers: Map<string, string> = new Map();
  bodyBytes = 0;
  reader: StreamReader | undefined;
  #kept: Buffer[] = [];
  /** Whether the reply was too large to be kept. */
  tooLarge = false;
  /** Whether only the end of the connection marked the end of the reply. */
  endedByClose = false;
  error: ExchangeError | undefined;
  done = false;

  constructor(
    wire: Buffer,
    onDone: (exchange: Exchange) => void,
    openReader?: (status: number, headers: Map<string, string>) => StreamReader | undefined,
  ) {
    this.wire = wire;
    this.#onDone = onDone;
    this.#openReader = openReader;
  }

  /** The body of the reply, as sent; empty if a reader received it or if it is too large to be kept. */
  get body(): Buffer {
    if (this.#kept.length > 1) this.#kept = [Buffer.concat(this.#kept)];
    return this.#kept[0] ?? Buffer.alloc(0);
  }

  /** @param headers of the final response (1xx are skipped). Names are lower-case */
  onHead(status: number, headers: Map<string, string>, reason: string): void {
    this.headAt = this.lastByteAt;
    this.status = status;
    this.reason = reason;
    this.headers = headers;
    this.reader = this.#openReader?.(status, headers);
  }

  /** Receives the body bytes `buffer[start, end)`, valid only during the call. */
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

  /** The response is complete. */
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
    this.reader = undefined;
  }
}
