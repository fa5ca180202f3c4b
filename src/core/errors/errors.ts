/**
 * The error classes of the pipeline. Step Functions matches a Lambda error by its `name`. Each error sets it
 * explicitly, because a bundler may rename classes. `errors.json` has all names, with their meaning, their retries and
 * their remedy.
 */
import { types } from 'node:util';
// Imports only the types, so that no function carries the texts. Code that needs the texts reads `errors.json`.
import type table from './errors.json';

type Table = typeof table;

/** The names of transient errors, and of limits that others use up. Step Functions retries both. */
export type RetryableErrorName = keyof (Table['transient'] & Table['throttled'] & Table['redelivered']);
export type PermanentErrorName = keyof Table['permanent'];
/** A reason in a receipt, a report or an assessment, which no function fails with. */
type ReportedName = keyof Table['reported'];
type ErrorName = RetryableErrorName | PermanentErrorName | ReportedName | keyof Table['killed'];

/** Facts that help a person on call: the value, the allowed values, and the place. */
export interface ErrorFacts {
  got?: unknown;
  expected?: string;
  where?: string;
}

const MAX_GOT_CHARS = 300;

/** Returns a message with its facts, in the format of all errors. */
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
 * The base of all named errors. Step Functions matches a Lambda error by its `name`, which each error sets explicitly,
 * because a bundler may rename classes. Its message goes into logs, receipts, summaries and causes. It contains names,
 * counts, ids and places, and never captured content, a rationale, or a secret. It describes another program's failure
 * with `saidBy` or `shownOf`; the other program's own message is among its causes.
 */
export class PipelineError<Name extends ErrorName = ErrorName> extends Error {
  constructor(name: Name, message: string, facts: ErrorFacts = {}, cause?: unknown) {
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

/**
 * A failure that a retry would repeat: invalid input, another 4xx status, denied access.
 *
 * @example
 *     throw new PermanentError('FileExists', 'The file exists', { got: path, expected: 'a new file' });
 */
export class PermanentError extends PipelineError<PermanentErrorName> {}

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
 * Returns the messages of other programs among the causes of an error. They can quote captured content, so use them
 * only in places that may contain it.
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

// --------------------------------------------------------------------------------------- another program's failure
// Logs, receipts and causes show its names, codes, statuses and ids. Its messages can quote captured content: MLflow
// lists the parameters of a statement, a judge repeats the prompt, a JSON parser quotes its input. Messages stay in a
// `Words` among the causes of an error, and are kept only next to content.

/** The words of another program, as the cause of a named error. Logs have its place in the code alone. */
export class Words extends Error {
  override readonly name = 'Words';

  constructor(text: string) {
    super(text.slice(0, MAX_WORDS_CHARS));
  }
}

const MAX_WORDS_CHARS = 10_000;
const MAX_NAME_CHARS = 64;

interface Failure {
  /** A class or a code: of an exception, an error reply or a network failure. */
  code?: unknown;
  status?: number | undefined;
  requestId?: unknown;
  /** Searched for the action and the resource of a denied call. */
  text?: string | undefined;
}

/** Names of programs have no digits, no spaces and no punctuation, so that no number or sentence can pass for one. */
const NAME = /^[A-Za-z]+(?:[._][A-Za-z]+)*$/;

/** A UUID, an id of S3 or DynamoDB, an id of OpenAI. */
const REQUEST_ID = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-Z]{16}|[0-9A-Z]{52}|req_[0-9a-f]{32})$/i;

/** IAM's reason, with the service control policy that denies a call, which no policy of the account can allow. */
const DENIED =
  /not authorized to perform: ([a-z][a-z-]{1,30}:[A-Z][A-Za-z]{2,60})(?: on resource: "?(arn:aws[a-z-]{0,10}:[\w:/.*-]{1,300}))?/;
const BY_ORGANIZATION = /explicit deny in a (service control policy(?:: arn:aws[a-z-]{0,10}:[\w:/.*-]{1,300})?)/;

/**
 * Returns the name of a class or a code. Returns `undefined` for other values, because clients copy the name from a
 * reply.
 */
const nameOf = (name: unknown): string | undefined =>
  typeof name === 'string' && name.length <= MAX_NAME_CHARS && NAME.test(name) ? name : undefined;

/** Describes a failure of another program without its words: `HTTP 403, AccessDeniedException, request …, denied s3:GetObject on arn:…`. */
export function shownOf({ code, status, requestId, text = '' }: Failure): string {
  const [, action, resource] = DENIED.exec(text) ?? [];
  const policy = BY_ORGANIZATION.exec(text)?.[1];
  return [
    status === undefined ? undefined : `HTTP ${status}`,
    nameOf(code),
    typeof requestId === 'string' && REQUEST_ID.test(requestId) ? `request ${requestId}` : undefined,
    action && `denied ${action}${resource ? ` on ${resource}` : ''}${policy ? ` by a ${policy}` : ''}`,
  ]
    .filter(Boolean)
    .join(', ');
}

/** Works across realms too, for example for errors of `fetch` in a sandbox. */
const isError = (error: unknown): error is Error => types.isNativeError(error) || error instanceof Error;

interface ForeignError extends Error {
  code?: unknown;
  $metadata?: { httpStatusCode?: number; requestId?: string };
  $response?: { statusCode?: number };
}

/** Describes an exception of another program: of Node, of a library, or of the AWS SDK. */
function shownOfError(error: Error): { name: string; message: string } {
  const { name, message, code, cause, $metadata, $response }: ForeignError = error;
  const shown = shownOf({
    code: code ?? (cause as ForeignError | undefined)?.code,
    status: $metadata?.httpStatusCode ?? $response?.statusCode,
    requestId: $metadata?.requestId,
    text: message,
  });
  return { name: nameOf(name) ?? 'Error', message: shown };
}
