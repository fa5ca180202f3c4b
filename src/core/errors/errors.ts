/**
 * The error classes of the pipeline. Step Functions matches a Lambda error by its `name`. Each error sets it explicitly,
 * because a bundler may rename classes. `errors.json` has all names: what each means, whether it is retried, and what to do.
 */

// The types alone: no function carries the texts. What needs them reads `error-table.ts`.
import type table from './errors.json';
import { isError, shownOfError, Words } from './foreign.ts';

type Table = typeof table;

/** The names of transient errors, and of limits that others use up. Step Functions retries both. */
export type RetryableErrorName = keyof (Table['transient'] & Table['throttled'] & Table['redelivered']);
export type PermanentErrorName = keyof Table['permanent'];
/** A reason in a receipt, a report or an assessment, which no function fails with. */
export type ReportedName = keyof Table['reported'];
export type ErrorName = RetryableErrorName | PermanentErrorName | ReportedName | keyof Table['killed'];

/** Facts that help a person on call: the value, the allowed values, and the place. */
export interface ErrorFacts {
  got?: unknown;
  expected?: string;
  where?: string;
}

const MAX_GOT_CHARS = 300;

/** Returns a message with its facts, as errors have it. */
export function withFacts(message: string, facts: ErrorFacts): string {
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
 * The base of all named errors. Its message goes into logs, receipts, summaries and causes. It contains names, counts,
 * ids and places, and never captured content, a judge's words, or a secret. What it says of another program's failure comes from
 * `saidBy` or `shownOf`; that program's own words are among its causes.
 */
export class PipelineError extends Error {
  constructor(name: ErrorName, message: string, facts: ErrorFacts = {}, cause?: unknown) {
    super(withFacts(message, facts), cause === undefined ? undefined : { cause });
    this.name = name;
  }
}

/** A transient failure: throttling, a timeout, a 5xx status, a lost connection. */
export class RetryableError extends PipelineError {
  /** The server's `Retry-After` in milliseconds, if it sent one. */
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

/** A failure that a retry would repeat: invalid input, another 4xx status, denied access. */
export class PermanentError extends PipelineError {
  constructor(name: PermanentErrorName, message: string, facts: ErrorFacts = {}, cause?: unknown) {
    super(name, message, facts, cause);
  }
}

/** Returns a failure that another process or an earlier attempt recorded, to be thrown under its name. */
export const recordedError = (error: { name: string; message: string }, facts?: ErrorFacts): PermanentError =>
  new PermanentError(error.name as PermanentErrorName, error.message, facts);

/** Limits that others use up. A chunk waits for them as for a permit: see `withinLimits`. */
const THROTTLED: Record<keyof Table['throttled'], true> = {
  BudgetTableThrottled: true,
  MlflowThrottled: true,
  StorageThrottled: true,
};

export const isThrottled = (error: unknown): error is RetryableError => isRetryable(error) && error.name in THROTTLED;

export const isRetryable = (error: unknown): error is RetryableError => error instanceof RetryableError;

/** Returns an error as receipts and summaries record it: of other programs' errors the name, code, status and request id. */
export function toNamedError(error: unknown): { name: string; message: string } {
  if (error instanceof PipelineError) return { name: error.name, message: error.message };
  return isError(error) ? shownOfError(error) : { name: 'Unknown', message: '' };
}

/** Describes another program's error without its words, for the message of a named error. */
export function saidBy(error: unknown): string {
  const { name, message } = toNamedError(error);
  return message === '' ? name : `${name}: ${message}`;
}

/**
 * Returns the words of other programs among the causes of an error. They can quote captured content: only for places that may have it.
 */
export function wordsIn(error: unknown): string[] {
  const words: string[] = [];
  for (let cause = error, depth = 0; isError(cause) && depth <= MAX_CAUSES; cause = cause.cause, depth += 1) {
    const { name, message } = cause;
    if (cause instanceof PipelineError || message === '') continue;
    words.push(cause instanceof Words ? message : `${name}: ${message}`);
  }
  return words;
}

/** The longest chain of causes that is logged. */
const MAX_CAUSES = 5;

/**
 * Returns an error that is safe to log and to throw from a function: its name, message, stack frames and causes. Other
 * fields are left out, because they can contain captured content.
 */
export function bareError(error: unknown, depth = 0): Error {
  const { name, message } = toNamedError(error);
  const cause = isError(error) && depth < MAX_CAUSES ? error.cause : undefined;
  const bare = new Error(message, cause === undefined ? undefined : { cause: bareError(cause, depth + 1) });
  const { message: original, stack = '' } = isError(error) ? error : { message };
  // A stack starts with the original message.
  const at = stack.indexOf(original);
  const frames = at < 0 ? '' : stack.slice(at + original.length).replace(/^[^\n]*/, '');
  return Object.assign(bare, { name, stack: `${name}: ${message}${frames}` });
}
