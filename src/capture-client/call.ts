/** What is known of one call while it runs: its times, its bytes, and how it ended. */
import { randomUUID } from 'node:crypto';

export type Ended = 'whole' | 'broke' | 'left' | 'failed';

/** Fields of a line's `client`: docs/capture-client.md. Times in milliseconds since the start. */
export interface ClientFields {
  streamed: boolean;
  ended?: Ended;
  status?: number;
  originalStatus?: number;
  error?: { kind: string; class: string };
  attempts?: number;
  firstByteMs?: number;
  firstContentMs?: number;
  endMs?: number;
  pieceCount?: number;
}

const FIRST_ROOM = 4096;
/** Pieces whose times are all kept, and the most times that are kept of a stream. */
const SINGLE_PIECES = 128;
const MOST_PIECES = 512;
/** Memory of a call without its contents, in bytes. */
const OVERHEAD = 2048;

/** The request or the reply. */
export class Side {
  contentType: string | null = null;
  /** Bytes that came, also those that are not kept. */
  total = 0;
  left: 'too-large' | 'memory' | 'unreadable' | undefined;
  #buffer: Buffer | undefined;

  /** Copies bytes: the application may change its own afterwards. @param most bytes that are kept, all or none */
  add(bytes: Uint8Array, most: number): void {
    const start = this.total;
    this.total += bytes.byteLength;
    if (this.left !== undefined) return;
    if (this.total > most) {
      this.left = 'too-large';
      this.forget();
    } else if (this.total > this.held) {
      // Exact for the first bytes, which are all there is of most sides; then doubled.
      const room = start === 0 ? this.total : Math.min(most, Math.max(FIRST_ROOM, 2 * this.total));
      const grown = Buffer.allocUnsafeSlow(room);
      this.#buffer?.copy(grown, 0, 0, start);
      this.#buffer = grown;
    }
    this.#buffer?.set(bytes, start);
  }

  forget(): void {
    this.#buffer = undefined;
  }

  get bytes(): Buffer {
    return this.#buffer?.subarray(0, this.total) ?? Buffer.alloc(0);
  }

  get held(): number {
    return this.#buffer?.length ?? 0;
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
  /** Milliseconds and bytes, by turns. */
  readonly pieces: number[] = [];
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
    else if (body !== undefined) this.request.left = 'unreadable';
  }

  keepReply(bytes: Uint8Array): void {
    this.reply.add(bytes, this.#most);
  }

  piece(bytes: Uint8Array): void {
    const ms = this.now();
    if (bytes.byteLength > 0) this.client.firstContentMs ??= ms;
    this.client.pieceCount = (this.client.pieceCount ?? 0) + 1;
    this.pieces.push(ms, bytes.byteLength);
    if (this.pieces.length === 2 * MOST_PIECES) {
      const [...tail] = this.pieces.splice(2 * SINGLE_PIECES);
      for (let i = 0; i < tail.length; i += 4) this.pieces.push(tail[i] ?? 0, (tail[i + 1] ?? 0) + (tail[i + 3] ?? 0));
    }
    this.keepReply(bytes);
  }

  get contents(): number {
    return this.request.held + this.reply.held;
  }

  /** Memory that the call takes, in bytes. */
  get held(): number {
    return OVERHEAD + 8 * this.pieces.length + this.contents;
  }
}
