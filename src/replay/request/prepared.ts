/** The form of a request that is ready to send. */
import type { ReplyContent } from '../reply/content.ts';
import type { SourceFile } from '../source/types.ts';
import type { Encoded } from '../targets/target.ts';
import type { Turn } from './sessions.ts';

/** The source of a token count: the target, the captured endpoint, an estimate from the text, or the chunks of a stream. */
export type TokenSource = 'server' | 'captured' | 'estimate' | 'chunks';

/** A request that is ready to be written to a connection. */
export interface PreparedRequest {
  /** Place in the schedule, from 0. */
  ordinal: number;
  /** Repetition of the captures, from 0. */
  pass: number;
  /** Milliseconds after the clock's start. NaN: as soon as a connection is free. */
  dueMs: number;
  phase: 'warmup' | 'profiling';
  /** Head and body as they are sent. */
  wire: Buffer;
  /** Where the body begins in `wire`. */
  bodyAt: number;
  /** Present when the request expires, as signed requests do: its creation time, and a function that encodes it again. */
  renewal?: { since: number; encode(): Encoded | Promise<Encoded> };
  contentType: string;
  /** The body is a JSON object. */
  isJson: boolean;
  streaming: boolean;
  /** Cancel the request this long after it was sent, to measure how the target handles canceled requests. */
  cancelAfterMs?: number;
  turn: Turn;
  requestId: string;
  correlationId: string;
  /** Captured ids. */
  eventId?: string;
  capturedInferenceId?: string;
  /** Id that the request is sent with. SageMaker only. */
  inferenceId?: string;
  /** Captured place and time. */
  file: string;
  bucket?: string;
  line: number;
  /** The file as the reader knows it, and the bytes of the line in it; `end` is inclusive. */
  place: { source: SourceFile; start: number; end: number };
  capturedMs: number;
  /** Length of the input, for requests with text. */
  inputTokens?: { count: number; source: TokenSource };
  /** Maximum number of output tokens that the request allows, above 0. */
  outputLimit?: number;
  /** MLflow's id of the captured request's trace, if the replay links to it. */
  capturedTraceId?: string;
  /** The captured endpoint's reply, kept for comparing replies, or because it says nothing. */
  captured?: ReplyContent;
}
