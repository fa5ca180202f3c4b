/** What is known of one call while it runs: its times, its bytes, and how it ended. */
import { randomUUID } from 'node:crypto';

export type Ended = 'whole' | 'broke' | 'left' | 'failed';

/** Fields of a line's `client`: docs/capture-client.md. Times in milliseconds since the start. */
interface ClientFields {
  streamed: boolean;
  ended?: Ended;
  status?: number;
  error?: { kind: string; class: string };
  firstByteMs?: number;
  firstContentMs?: number;
  endMs?: number;
  pieceCount?: number;
}

/** The request or the reply. Memory adds the bytes. */
export class Side {
  contentType: string | null = null;
  /** Bytes that came, also those that are not kept. */
  total = 0;
  /** Why the content is not kept. */
  left: 'too-large' | 'memory' | 'unreadable' | undefined;
  kept: Buffer[] = [];
  /** Memory of what is kept, in bytes. */
  held = 0;
}

export class Call {
  readonly id = randomUUID();
  readonly startMs = Date.now();
  readonly request = new Side();
  readonly reply = new Side();
  readonly client: ClientFields;
  readonly endpoint: string;
  variant: string;
  /** Fields of the line's `eventMetadata`, as JSON: what cannot be written fails here, and not in a batch of others. */
  readonly about: string;
  /** Milliseconds and bytes. */
  readonly pieces: [number, number][] = [];
  /** When the last piece came. */
  seenMs: number | undefined;
  /** Pieces whose times are kept: fewer where the memory is over its bound. */
  mostPieces = 512;
  /** Of the reply, until the call ends: where the application aborts it, it has neither an error nor an end. */
  socket: { errored?: Error | null; readableEnded?: boolean } | undefined;
  /** Memory of all, in bytes, as it was counted last. */
  size = 0;
  #body: unknown;
  readonly #clock = performance.now();

  /** @param input of the command, with an `EndpointName` */
  constructor(input: Record<string, unknown>, streamed: boolean) {
    this.client = { streamed };
    this.endpoint = String(input.EndpointName);
    this.variant = String(input.TargetVariant ?? input.InferenceComponentName ?? 'unknown');
    const about = { inferenceId: input.InferenceId, customAttributes: input.CustomAttributes };
    this.about = JSON.stringify({ eventId: this.id, inferenceTime: new Date(this.startMs).toISOString(), ...about });
    if (typeof input.ContentType === 'string') this.request.contentType = input.ContentType;
    this.#body = input.Body ?? '';
  }

  /** Milliseconds since the start, by a clock that does not jump. */
  now(): number {
    return Math.round((performance.now() - this.#clock) * 1000) / 1000;
  }

  /** Returns the bytes of the request, once; `undefined` for a body that can be read only once, which is not touched. */
  takeRequest(): Uint8Array | undefined {
    const body = this.#body;
    this.#body = undefined;
    if (typeof body === 'string') return Buffer.from(body);
    return body instanceof Uint8Array ? body : undefined;
  }

  /** Keeps the time of a piece of the reply. */
  piece(size: number): void {
    this.seenMs = this.now();
    if (size > 0) this.client.firstContentMs ??= this.seenMs;
    this.client.pieceCount = (this.client.pieceCount ?? 0) + 1;
    if (this.pieces.length < this.mostPieces) this.pieces.push([this.seenMs, size]);
  }
}
