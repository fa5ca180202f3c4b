/** The errors of MLflow calls. */
import { PermanentError, RetryableError, type RetryableErrorName } from '../core/errors/errors.ts';

/**
 * The outcome of a failed call. `none`: the server did no work, because it refused or was not reached. `unknown`: the
 * server may have done the work, so a writer must read before it writes again.
 */
type Outcome = 'none' | 'unknown';

/** A failed call that a retry may complete. */
export class MlflowRetryableError extends RetryableError {
  readonly outcome: Outcome;
  readonly status: number | undefined;
  /** The connection broke before the whole body was sent. Some servers refuse a body that is too large in this way. */
  readonly whileSending: boolean;
  /** The call timed out, but the server may still be processing it. */
  readonly mayBeInProgress: boolean;

  constructor(
    name: RetryableErrorName,
    message: string,
    details: {
      where: string;
      got?: unknown;
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
    this.mayBeInProgress = details.timedOut === true || details.status === 504;
  }
}

/** Returns the error for a reply with status 200 that MLflow may not have sent: a gateway that forwards nothing also answers 200. */
export const notStored = (message: string, got: string, where: string): MlflowRetryableError =>
  new MlflowRetryableError('MlflowNotStored', message, { got, where, outcome: 'unknown' });

/** Returns `undefined` if MLflow reports that the subject of a call does not exist. @throws any other error */
export function orAbsent(error: unknown): undefined {
  if (!(error instanceof MlflowRefusedError) || error.errorCode !== 'RESOURCE_DOES_NOT_EXIST') throw error;
}

export const isAccessDenied = (error: unknown): boolean =>
  error instanceof PermanentError && error.name === 'MlflowAccessDenied';

/** A call that MLflow refused with a 4xx status or 501. A retry would be refused again. */
export class MlflowRefusedError extends PermanentError {
  readonly status: number;
  /** MLflow's error code, such as `RESOURCE_DOES_NOT_EXIST`; `undefined` if the reply is not MLflow's. */
  readonly errorCode: string | undefined;

  constructor(
    message: string,
    details: { where: string; got: unknown; status: number; errorCode?: string; cause?: unknown },
  ) {
    super('MlflowRefused', message, { got: details.got, where: details.where }, details.cause);
    this.status = details.status;
    this.errorCode = details.errorCode;
  }

  /** The server does not have this route: it is another version, or a gateway does not forward the route. */
  get routeMissing(): boolean {
    return this.status === 405 || this.status === 501 || (this.status === 404 && this.errorCode === undefined);
  }
}
