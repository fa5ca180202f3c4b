/** What is known of one call while it runs: its times, its bytes, and how it ended. */
import { randomUUID } from 'node:crypto';

export type Ended = 'whole' | 'broke' | 'left' | 'failed';
export type Kind = 'no-connection' | 'timeout' | 'throttled' | 'refused' | 'service' | 'model' | 'stream' | 'aborted';
type Why = 'too-large' | 'memory' | 'unreadable';

/** One side of a call. */
export class Side {
  contentType: string | null = null;
  /** Bytes that came, also those that are not kept. */
  total = 0;
  left: Why | undefined;
  #buffer: Buffer | undefined;
  readonly #most: number;

  /** @param most bytes that are kept; a longer content is left out. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Copies bytes: the application may change its own afterwards. */
  add(bytes: Uint8Array): void {
    const start = this.total;
    this.total += bytes.byteLength;
    if (this.left !== undefined || bytes.byteLength === 0) return;
    if (this.total > this.#most) {
      this.leaveOut('too-large');
      return;
    }
    if (this.#buffer === undefined || this.total > this.#buffer.length) {
      // Exact for the first bytes, which are all there is of most sides; then doubled, so that long streams are copied rarely.
      const room = start === 0 ? this.total : Math.min(this.#most, Math.max(FIRST_ROOM, 2 * this.total));
      const grown = Buffer.allocUnsafeSlow(room);
      this.#buffer?.copy(grown, 0, 0, start);
      this.#buffer = grown;
    }
    this.#buffer.set(bytes, start);
  }

  leaveOut(why: Why): void {
    this.left = why;
    this.#buffer = undefined;
  }

  /** `undefined` if the content was left out or there was none. */
  get bytes(): Buffer | undefined {
    return this.#buffer?.subarray(0, this.total);
  }

  get held(): number {
    return this.#buffer?.length ?? 0;
  }
}

const FIRST_ROOM = 4096;
/** Pieces whose times are all kept, and the most times that are kept of a stream. */
const SINGLE_PIECES = 128;
const MOST_PIECES = 512;
/** Memory of a call without its contents. */
const OVERHEAD = 2048;

export interface CallFacts {
  endpoint: string;
  /** The variant or component that the request named. */
  target: string | undefined;
  inferenceId: string | undefined;
  customAttributes: string | undefined;
  streamed: boolean;
}

export class Call {
  readonly id = randomUUID();
  readonly startMs = Date.now();
  readonly facts: CallFacts;
  readonly request: Side;
  readonly reply: Side;
  variant: string | undefined;
  ended: Ended | undefined;
  error: { kind: Kind; class: string } | undefined;
  status: number | undefined;
  originalStatus: number | undefined;
  attempts: number | undefined;
  firstByteMs: number | undefined;
  firstContentMs: number | undefined;
  endMs = 0;
  pieceCount = 0;
  /** Milliseconds and bytes, by turns. */
  readonly pieces: number[] = [];
  /** The application's body, until the end of the call shows whether it is written. */
  body: unknown;
  readonly #started = performance.now();

  constructor(facts: CallFacts, maxBodyBytes: number) {
    this.facts = facts;
    this.request = new Side(maxBodyBytes);
    this.reply = new Side(maxBodyBytes);
  }

  /** Milliseconds since the start, by a clock that does not jump. */
  now(): number {
    return Math.round((performance.now() - this.#started) * 1000) / 1000;
  }

  end(ended: Ended): void {
    this.ended = ended;
    this.endMs = this.now();
  }

  /** Keeps the request, as soon as it was sent. A body that can be read only once is not touched. */
  keepRequest(): void {
    const { body } = this;
    this.body = undefined;
    if (body === undefined) return;
    if (typeof body === 'string') this.request.add(Buffer.from(body));
    else if (ArrayBuffer.isView(body)) this.request.add(new Uint8Array(body.buffer, body.byteOffset, body.byteLength));
    else this.request.leaveOut('unreadable');
  }

  piece(bytes: Uint8Array): void {
    const ms = this.now();
    if (bytes.byteLength > 0) this.firstContentMs ??= ms;
    this.pieceCount += 1;
    this.pieces.push(ms, bytes.byteLength);
    if (this.pieces.length === 2 * MOST_PIECES) this.#joinPieces();
    this.reply.add(bytes);
  }

  #joinPieces(): void {
    const joined = this.pieces.splice(2 * SINGLE_PIECES);
    for (let i = 0; i < joined.length; i += 4) {
      this.pieces.push(joined[i] as number, (joined[i + 1] as number) + (joined[i + 3] as number));
    }
  }

  /** Memory that the call takes, in bytes. */
  get held(): number {
    return OVERHEAD + 8 * this.pieces.length + this.request.held + this.reply.held;
  }

  get hasContents(): boolean {
    return this.request.held + this.reply.held > 0;
  }

  leaveOutContents(): void {
    for (const side of [this.request, this.reply]) if (side.held > 0) side.leaveOut('memory');
  }
}
