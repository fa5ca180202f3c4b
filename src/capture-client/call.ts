/** What is known of one call while it runs: its times, its bytes, and how it ended. */
import { randomUUID } from 'node:crypto';

export type Ended = 'whole' | 'broke' | 'left' | 'failed';

/** Fields of a line's `client`: docs/capture-client.md. Times in milliseconds since the start. */
export interface ClientFields {
  streamed: boolean;
  ended?: Ended;
  status?: number;
  error?: { kind: string; class: string };
  firstByteMs?: number;
  firstContentMs?: number;
  endMs?: number;
  pieceCount?: number;
}

const FIRST_ROOM = 4096;
const EMPTY = Buffer.alloc(0);
/** Pieces of a stream whose times are kept. */
const MOST_PIECES = 512;
/** Memory of a call without its contents, in bytes. */
const OVERHEAD = 2048;
const PIECE = 56;

/** The request or the reply. */
export class Side {
  contentType: string | null = null;
  /** Bytes that came, also those that are not kept. */
  total = 0;
  /** Why the content is not kept. */
  left: 'too-large' | 'memory' | 'unreadable' | undefined;
  #buffer = EMPTY;

  /** Copies bytes: the application may change its own afterwards. @param most bytes that are kept, all or none */
  add(bytes: Uint8Array, most: number): void {
    const start = this.total;
    this.total += bytes.byteLength;
    if (this.total > most) this.leave('too-large');
    if (this.left !== undefined) return;
    if (this.total > this.held) {
      // Exact for the first bytes, which are all there is of most sides; then doubled.
      const room = start === 0 ? this.total : Math.min(most, Math.max(FIRST_ROOM, 2 * this.total));
      const grown = Buffer.allocUnsafeSlow(room);
      this.#buffer.copy(grown, 0, 0, start);
      this.#buffer = grown;
    }
    this.#buffer.set(bytes, start);
  }

  leave(why: NonNullable<Side['left']>): void {
    this.left ??= why;
    this.#buffer = EMPTY;
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.total);
  }

  get held(): number {
    return this.#buffer.length;
  }
}

export class Call {
  readonly id = randomUUID();
  readonly startMs = Date.now();
  readonly request = new Side();
  readonly reply = new Side();
  readonly client: ClientFields;
  readonly endpoint: string;
  variant: string;
  readonly inferenceId: unknown;
  readonly customAttributes: unknown;
  /** Milliseconds and bytes. */
  readonly pieces: [number, number][] = [];
  #body: unknown;
  readonly #most: number;
  readonly #clock = performance.now();

  /** @param input of the command, with an `EndpointName` @param most bytes of a content that is kept */
  constructor(input: Record<string, unknown>, streamed: boolean, most: number) {
    this.client = { streamed };
    this.endpoint = String(input.EndpointName);
    this.variant = String(input.TargetVariant ?? input.InferenceComponentName ?? 'unknown');
    this.inferenceId = input.InferenceId;
    this.customAttributes = input.CustomAttributes;
    if (typeof input.ContentType === 'string') this.request.contentType = input.ContentType;
    this.#body = input.Body;
    this.#most = most;
  }

  /** Milliseconds since the start, by a clock that does not jump. */
  now(): number {
    return Math.round((performance.now() - this.#clock) * 1000) / 1000;
  }

  end(ended: Ended): void {
    this.client.ended = ended;
    this.client.endMs = this.now();
  }

  /** Keeps the request, as soon as it was sent. A body that can be read only once is not touched. */
  keepRequest(): void {
    const body = this.#body;
    this.#body = undefined;
    if (typeof body === 'string') this.request.add(Buffer.from(body), this.#most);
    else if (body instanceof Uint8Array) this.request.add(body, this.#most);
    else if (body !== undefined) this.request.leave('unreadable');
  }

  keepReply(bytes: Uint8Array): void {
    this.reply.add(bytes, this.#most);
  }

  piece(bytes: Uint8Array): void {
    const ms = this.now();
    if (bytes.byteLength > 0) this.client.firstContentMs ??= ms;
    this.client.pieceCount = (this.client.pieceCount ?? 0) + 1;
    if (this.pieces.length < MOST_PIECES) this.pieces.push([ms, bytes.byteLength]);
    this.keepReply(bytes);
  }

  get contents(): number {
    return this.request.held + this.reply.held;
  }

  /** Memory that the call takes, in bytes. */
  get held(): number {
    return OVERHEAD + PIECE * this.pieces.length + this.contents;
  }
}
