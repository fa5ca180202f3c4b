/** The state of one call while it runs: its times, its bytes, and how it ended. */
import { randomUUID } from 'node:crypto';
import { activeTraceparent } from './past-tracers.ts';

export type Ended = 'whole' | 'broke' | 'left' | 'failed';
export type CallError = { kind: string; class: string };

/** Fields of a line's `client`: docs/capture-client.md. Times in milliseconds since the start. */
interface ClientFields {
  streamed: boolean;
  traceparent?: string | undefined;
  ended?: Ended;
  status?: number;
  error?: CallError;
  firstByteMs?: number;
  endMs?: number;
  pieceCount?: number;
  dropped?: number | undefined;
}

/** Memory of a call without its contents, of a piece's time, and of a kept piece in addition to its bytes. */
export const OVERHEAD = 4096;
const TIME = 56;
const PIECE = 200;

/** The request or the reply. */
export class Side {
  contentType: string | null = null;
  /** Number of bytes that arrived, including bytes that are not kept. */
  total = 0;
  /** Reason why the content is not kept. */
  left: 'too-large' | 'memory' | 'unreadable' | 'unread' | undefined;
  kept: Buffer[] = [];
  /** Memory of the kept content, in bytes. */
  held = 0;

  /** Copies bytes: the application may change its own afterwards. @param bytes `undefined` if they cannot be read @param most that are kept */
  add(bytes: Uint8Array | undefined, most: number): void {
    this.total += bytes?.byteLength ?? 0;
    if (bytes === undefined) this.leaveOut('unreadable');
    else if (this.total > most) this.leaveOut('too-large');
    else if (this.left === undefined && bytes.byteLength > 0) {
      const copy = Buffer.allocUnsafeSlow(bytes.byteLength);
      copy.set(bytes);
      this.kept.push(copy);
      this.held += bytes.byteLength + PIECE;
    }
  }

  leaveOut(why: NonNullable<Side['left']>): void {
    this.left ??= why;
    this.kept = [];
    this.held = 0;
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
  /**
   * Fields of the line's `eventMetadata`, as JSON. If they cannot be serialized, the error occurs here, and not in a
   * batch of several calls.
   */
  readonly about: string;
  /** Milliseconds and bytes. */
  readonly pieces: [number, number][] = [];
  /** Arrival time of the last piece. */
  seenMs: number | undefined;
  /** Maximum number of pieces whose times are kept. It is reduced when the memory exceeds its bound. */
  mostPieces = 512;
  /**
   * Socket of the reply until the call ends. If the application aborts the reply, the socket has neither an error nor
   * an end.
   */
  socket: { errored?: Error | null; readableEnded?: boolean } | undefined;
  /** The reply has ended, or may go on, within the length of a frame. */
  endsInFrame = false;
  /** The abort signal that the application passed to the call. */
  signal: { aborted: boolean; reason?: unknown } | undefined;
  /** Body of the request, until it is read. */
  body: unknown;
  readonly #clock = performance.now();

  /** @param input of the command, with an `EndpointName` */
  constructor(input: Record<string, unknown>, streamed: boolean) {
    this.client = { streamed, traceparent: activeTraceparent() };
    this.endpoint = String(input.EndpointName);
    this.variant = String(input.TargetVariant ?? input.InferenceComponentName ?? 'unknown');
    const about = { inferenceId: cut(input.InferenceId, 64), customAttributes: cut(input.CustomAttributes, 1024) };
    this.about = JSON.stringify({ eventId: this.id, inferenceTime: new Date(this.startMs).toISOString(), ...about });
    if (typeof input.ContentType === 'string') this.request.contentType = input.ContentType;
    this.body = input.Body ?? '';
  }

  /** Memory of all, in bytes. */
  get size(): number {
    return OVERHEAD + TIME * this.pieces.length + this.request.held + this.reply.held;
  }

  /** Milliseconds since the start, by a clock that does not jump. */
  now(): number {
    return Math.round((performance.now() - this.#clock) * 1000) / 1000;
  }

  /** Keeps the time of a piece of the reply. */
  piece(size: number): void {
    this.seenMs = this.now();
    this.client.pieceCount = (this.client.pieceCount ?? 0) + 1;
    if (this.pieces.length < this.mostPieces) this.pieces.push([this.seenMs, size]);
  }
}

/** @param most characters that SageMaker takes */
const cut = (value: unknown, most: number): unknown => (typeof value === 'string' ? value.slice(0, most) : value);

const MOST_CLASS_CHARS = 100;

/** Errors of the SDK's handler for an aborted call: before its reply, and during the reply. */
const ABORTED = ['AbortError', 'ECONNRESET'];

/**
 * Returns how an error ended a call. An abort by the application's signal counts as a time-out only if the signal's
 * reason is a time-out.
 */
export function endOf({ client: { status }, signal, socket }: Call, error: unknown): [Ended, CallError?] {
  const hasReply = status !== undefined && status < 400;
  const told = errorOf(error, status);
  const isAborted = signal?.aborted && ABORTED.includes(told.class);
  if (isAborted && (signal.reason as Error | undefined)?.name === 'TimeoutError')
    return [hasReply ? 'broke' : 'failed', errorOf(signal.reason, status)];
  // A connection that neither failed nor ended was closed here.
  const isClosed = told.class === 'ECONNRESET' && socket !== undefined && !socket.errored && !socket.readableEnded;
  if (hasReply && (isAborted || isClosed || told.kind === 'aborted')) return ['left'];
  return [hasReply ? 'broke' : 'failed', told];
}

/** @param status of the last reply, or `undefined` without a reply */
function errorOf(error: unknown, status: number | undefined): CallError {
  const { name = 'Error', code } = (error ?? {}) as { name?: string; code?: unknown };
  const system = typeof code === 'string' && /^E[A-Z_]+$/.test(code) ? code : '';
  // A server may name its errors in any way; the reader of the line takes no other characters.
  const told = (system || String(name)).slice(0, MOST_CLASS_CHARS).replace(/[^\w.-]/g, '_');
  return { kind: kindOf(name, system, status), class: told || 'Error' };
}

function kindOf(name: string, code: string, status: number | undefined): string {
  if (name === 'AbortError') return 'aborted';
  if (name === 'ModelError') return 'model';
  // The reply had begun.
  if (status !== undefined && status < 400) return 'stream';
  // The SDK calls other failures of a connection time-outs, too.
  if (code === '' ? name === 'TimeoutError' : code === 'ETIMEDOUT') return 'timeout';
  if (status === undefined) return 'no-connection';
  if (status === 429 || status === 503 || /Throttl|TooManyRequests|ModelNotReady/.test(name)) return 'throttled';
  return status >= 500 ? 'service' : 'refused';
}
