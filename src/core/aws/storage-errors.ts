/** Names the failures of S3, and distinguishes failures that are worth a retry. */

import { S3ServiceException } from '@aws-sdk/client-s3';
import {
  PermanentError,
  type PermanentErrorName,
  PipelineError,
  RetryableError,
  type RetryableErrorName,
  saidBy,
} from '../errors/errors.ts';
import { jsonIn } from '../values/json-in.ts';

export const httpStatusOf = (error: unknown): number | undefined =>
  error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined;

const MISSING_NAMES = new Set(['NoSuchKey', 'NotFound', 'NoSuchVersion']);

/** Whether the object does not exist; a missing bucket is another failure. */
export const isMissing = (error: unknown): boolean =>
  error instanceof S3ServiceException &&
  (MISSING_NAMES.has(error.name) || httpStatusOf(error) === 404) &&
  error.name !== 'NoSuchBucket';

/**
 * S3 reports a connection that was idle for 20 s with this name and status 400, for example if the client is short of
 * CPU.
 */
const IDLE_CONNECTION = 'RequestTimeout';

const EXPIRED_NAMES = new Set(['ExpiredToken', 'ExpiredTokenException', 'TokenRefreshRequired', 'RequestExpired']);

/** Creates the error for a reply that did not come from S3, such as a gateway’s page with status 200. */
export const notS3 = (got: string, where: string): RetryableError =>
  new RetryableError('StorageUnavailable', 'The reply is not from S3', { got, where });

/** Parses JSON that the pipeline has stored. The error does not quote the text. */
export function parseStored<T>(text: string, where: string): T {
  const value = jsonIn(text);
  if (value === undefined) throw notS3(`${text.length} characters that are not JSON`, where);
  return value as T;
}

/** Yields the values of stored lines of JSON one after the other: parsed all at once, they would take several times the memory. */
export function* parsedLines<T>(text: Buffer, where: string): Generator<T> {
  for (let start = 0, end = 0; start < text.length; start = end + 1) {
    end = text.indexOf('\n', start);
    if (end < 0) end = text.length;
    if (end > start) yield parseStored<T>(text.toString('utf8', start, end), where);
  }
}

/** Whether S3 throttles the request (SlowDown). The reply to HEAD has no body, so its error has no name. */
export const isThrottled = (error: unknown): boolean => httpStatusOf(error) === 503;

/** Converts a failure of S3 to one of the pipeline’s errors. Transient failures become retryable. */
export function namedStorageError(error: unknown, where: string): Error {
  if (error instanceof PipelineError) return error;
  const status = httpStatusOf(error);
  const name = error instanceof Error ? error.name : 'Unknown';
  const facts = { got: saidBy(error), where };
  const passing = (as: RetryableErrorName, message: string) => new RetryableError(as, message, facts, error);
  const lasting = (as: PermanentErrorName, message: string) => new PermanentError(as, message, facts, error);
  if (EXPIRED_NAMES.has(name)) return passing('CredentialsExpired', 'The credentials for S3 have expired');
  if (name === 'InvalidObjectState')
    return lasting('CaptureArchived', 'S3 has archived the capture file; restore it first');
  const denied = 'S3 denied access; without s3:ListBucket, S3 denies access to a missing key as well';
  if (status === 403) return lasting('StorageAccessDenied', denied);
  if (name === 'NoSuchBucket') return lasting('BucketMissing', 'The bucket does not exist');
  const isTransient = status === 408 || status === 429 || name === IDLE_CONNECTION;
  if (status !== undefined && status >= 400 && status < 500 && !isTransient)
    return lasting('StorageRefused', 'S3 refused the request');
  if (isThrottled(error)) return passing('StorageThrottled', 'S3 throttled every attempt');
  return passing('StorageUnavailable', 'S3 failed or did not answer');
}
