/** How failures of MLflow calls are named. */
import { PermanentError, RetryableError, type RetryableErrorName } from '../shared/errors.ts';

const MAX_SAID_CHARS = 500;
const withWords = (message: string, said: string): string =>
  said === '' ? message : `${message}; MLflow said: ${said.slice(0, MAX_SAID_CHARS)}`;

/**
 * What is known about a call that failed: `none`, the server has done nothing (it refused, or was never reached), or
 * `unknown`, it may have done the work all the same: whoever wrote must read before writing again.
 */
type Outcome = 'none' | 'unknown';

/** A failed call that may succeed when it is made again. */
export class MlflowRetryableError extends RetryableError {
  readonly outcome: Outcome;
  readonly status: number | undefined;
  /** The connection broke before the whole body was sent: some servers refuse a body that is too large in this way. */
  readonly whileSending: boolean;
  /** Nobody waits for the answer any more, but the server may still be at work on it. */
  readonly mayBeAtWork: boolean;
  readonly #said: string;

  constructor(
    name: RetryableErrorName,
    message: string,
    details: {
      where: string;
      got?: unknown;
      said?: string;
      outcome: Outcome;
      status?: number;
      whileSending?: boolean;
      timedOut?: boolean;
      retryAfterMs?: number;
      cause?: unknown;
    },
  ) {
    super(name, message, { got: details.got, where: details.where }, details.cause, details.retryAfterMs);
    this.outcome = details.outcome;
    this.status = details.status;
    this.whileSending = details.whileSending ?? false;
    this.#said = details.said ?? '';
    this.mayBeAtWork = details.timedOut === true || details.status === 504;
  }

  /** See `MlflowRefusedError`. */
  get reason(): string {
    return withWords(this.message, this.#said);
  }
}

/** A call that MLflow answered with a 4xx (or 501): the same call would be answered so again. */
export class MlflowRefusedError extends PermanentError {
  readonly status: number;
  /** MLflow's own code, e.g. `RESOURCE_DOES_NOT_EXIST`; `undefined` when the reply is not MLflow's. */
  readonly errorCode: string | undefined;
  readonly #said: string;

  constructor(
    message: string,
    details: { where: string; got: unknown; said: string; status: number; errorCode?: string },
  ) {
    super('MlflowRefused', message, { got: details.got, where: details.where });
    this.status = details.status;
    this.errorCode = details.errorCode;
    this.#said = details.said;
  }

  /** With MLflow's own words, which may quote what was to be stored: for quarantine alone, where that is kept anyway. */
  get reason(): string {
    return withWords(this.message, this.#said);
  }

  /** The server does not know this route (another version, or a gateway that does not pass it on). */
  get routeMissing(): boolean {
    return this.status === 405 || this.status === 501 || (this.status === 404 && this.errorCode === undefined);
  }
}
