/**
 * The error classes of the pipeline. Step Functions matches a Lambda error by its `name`, so each class sets it
 * explicitly (a bundler may rename classes), and the state machine's retries list the names of RETRYABLE_ERRORS.
 */

/** Facts that help a person at 3 a.m.: what was got, what is allowed, and where. */
export interface ErrorFacts {
  got?: unknown;
  expected?: string;
  where?: string;
}

const MAX_GOT_CHARS = 300;

function describe(message: string, facts: ErrorFacts): string {
  const parts = [message];
  if (facts.got !== undefined) {
    const got = typeof facts.got === 'string' ? facts.got : JSON.stringify(facts.got);
    parts.push(`got: ${got.length > MAX_GOT_CHARS ? `${got.slice(0, MAX_GOT_CHARS)}…` : got}`);
  }
  if (facts.expected !== undefined) parts.push(`expected: ${facts.expected}`);
  if (facts.where !== undefined) parts.push(`where: ${facts.where}`);
  return parts.join('; ');
}

export class PipelineError extends Error {
  readonly facts: ErrorFacts;

  constructor(name: string, message: string, facts: ErrorFacts = {}, cause?: unknown) {
    super(describe(message, facts), cause === undefined ? undefined : { cause });
    this.name = name;
    this.facts = facts;
  }
}

/** A failure that the same call may not meet again: throttling, timeouts, 5xx, lost connections. */
export class RetryableError extends PipelineError {
  /** The server's `Retry-After`, in milliseconds, when it sent one. */
  readonly retryAfterMs: number | undefined;

  constructor(
    name: RetryableErrorName,
    message: string,
    facts: ErrorFacts = {},
    cause?: unknown,
    retryAfterMs?: number,
  ) {
    super(name, message, facts, cause);
    this.retryAfterMs = retryAfterMs;
  }
}

/** A failure that would be the same again: bad input, other 4xx, access denied. */
export class PermanentError extends PipelineError {}

/** Names of retryable errors, as the state machine's Retry lists them. */
export const RETRYABLE_ERRORS = [
  'MlflowUnavailable',
  'MlflowThrottled',
  'JudgeThrottled',
  'JudgeUnavailable',
  'StorageUnavailable',
  'ChunkOutOfTime',
  'CredentialsExpired',
] as const;

export type RetryableErrorName = (typeof RETRYABLE_ERRORS)[number];

export const isRetryable = (error: unknown): error is RetryableError => error instanceof RetryableError;

/** An error as receipts and summaries record it. */
export const toNamedError = (error: unknown): { name: string; message: string } =>
  error instanceof Error ? { name: error.name, message: error.message } : { name: 'Unknown', message: String(error) };
