/** A model's answer to one call, in the judge's own terms. */

/** Tokens of one call. `inputTokens` leaves out what was read from or written to the prompt cache. */
export interface CallUsage {
  inputTokens: number;
  outputTokens: number;
  cacheReadInputTokens?: number | undefined;
  cacheWriteInputTokens?: number | undefined;
  /** The request asked for its prefix to be cached. */
  asksForCache?: boolean | undefined;
  /** The call was part of a batch job, which has a separate price. */
  batch?: boolean | undefined;
}

/** Why the model stopped. */
export type Stop = 'end' | 'cut' | 'guardrail' | 'filtered' | 'malformed' | 'context';

export interface ModelAnswer {
  /** The answer as an object, if the service returns one (a tool call). */
  object?: unknown;
  text: string;
  stop: Stop;
  /** The service's own name for the reason. */
  stopReason: string;
  usage: CallUsage;
}
