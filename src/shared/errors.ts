/**
 * The error classes of the pipeline. Step Functions matches a Lambda error by its `name`, so each class sets it
 * explicitly (a bundler may rename classes), and the state machine's retries list the names of RETRYABLE_ERRORS.
 */

import { knownName, knownWords } from './known-words.ts';

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

/**
 * Its message goes into logs, receipts, summaries and causes: it holds names, counts, ids and places, never what was
 * captured, what a judge wrote, or a secret. What another program said goes through `knownWords` before it gets here.
 */
export class PipelineError extends Error {
  constructor(name: string, message: string, facts: ErrorFacts = {}, cause?: unknown) {
    super(describe(message, facts), cause === undefined ? undefined : { cause });
    this.name = name;
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
  'BudgetTableUnavailable',
  'StepFunctionsUnavailable',
  'ChunkOutOfTime',
  'CredentialsExpired',
] as const;

export type RetryableErrorName = (typeof RETRYABLE_ERRORS)[number];

export const isRetryable = (error: unknown): error is RetryableError => error instanceof RetryableError;

/** An error as receipts and summaries record it; of one that is not the pipeline's own, the words that quote nothing. */
export function toNamedError(error: unknown): { name: string; message: string } {
  if (error instanceof PipelineError) return { name: error.name, message: error.message };
  if (error instanceof Error) return { name: knownName(error.name), message: knownWords(error.message) };
  return { name: 'Unknown', message: knownWords(String(error)) };
}

/** What another program's error says, for the message of one of ours. */
export function saidBy(error: unknown): string {
  const { name, message } = toNamedError(error);
  return message === '' ? name : `${name}: ${message}`;
}

/** Causes of causes that are logged. */
const MAX_CAUSES = 5;

/**
 * An error as it may be logged, and leave a function: name, message, the places in the code, and its causes. Fields of
 * any other name stay behind: they may hold anything.
 */
export function bareError(error: unknown, depth = 0): Error {
  const { name, message } = toNamedError(error);
  const cause = error instanceof Error && depth < MAX_CAUSES ? error.cause : undefined;
  const bare = new Error(message, cause === undefined ? undefined : { cause: bareError(cause, depth + 1) });
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  // A stack begins with the message, in the words of the error as it was made.
  const said = error instanceof Error ? stack.indexOf(error.message) : -1;
  const frames =
    said < 0
      ? []
      : stack
          .slice(said + (error as Error).message.length)
          .split('\n')
          .slice(1);
  return Object.assign(bare, { name, stack: [`${name}: ${message}`, ...frames].join('\n') });
}
