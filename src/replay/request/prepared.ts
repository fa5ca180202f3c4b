import type { ReplyContent } from '../reply/content.ts';
import type { Encoded } from '../targets/target.ts';
import type { Turn } from './sessions.ts';

/** How a number of tokens was come by: counted by the target, by the captured endpoint, or estimated from the text. */
export type TokenSource = 'server' | 'captured' | 'estimate' | 'chunks';

/** A request that is ready to go: nothing is left to do but to write it to a connection. */
export interface PreparedRequest {
  /** Place in the schedule, from 0. */
  ordinal: number;
  /** Which repetition of the captures it belongs to, from 0. */
  pass: number;
  /** Milliseconds after the clock's start; NaN: as soon as there is room. */
  dueMs: number;
  phase: 'warmup' | 'profiling';
  /** Head and body as they go on the wire. */
  wire: Buffer;
  /** Where the body begins in `wire`. */
  bodyAt: number;
  /** There when it is good for a time only, as signed ones are: since when it is, and how it is made anew. */
  renewal?: { since: number; encode(): Encoded | Promise<Encoded> };
  /** Names of headers whose values are in no file. */
  secretHeaders?: ReadonlySet<string>;
  contentType: string;
  /** The body is a JSON object. */
  isJson: boolean;
  streaming: boolean;
  /** Given up this long after it was sent, to see what cancelling does to the target. */
  cancelAfterMs?: number;
  turn: Turn;
  requestId: string;
  correlationId: string;
  /** Captured ids. */
  eventId?: string;
  capturedInferenceId?: string;
  /** Id that the request was sent with; SageMaker only. */
  inferenceId?: string;
  /** Captured place and time. */
  file: string;
  bucket?: string;
  line: number;
  capturedMs: number;
  /** Length of the input, for requests that carry text. */
  inputTokens?: { count: number; source: TokenSource };
  /** Most tokens that the request lets the reply have, above 0. */
  outputLimit?: number;
  /** MLflow's id of the captured request's trace, where it is to be linked. */
  capturedTraceId?: string;
  /** What the captured endpoint answered, kept where replies are compared. */
  captured?: ReplyContent;
}
