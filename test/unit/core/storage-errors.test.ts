/** The named errors for the failures of S3, and which of them are retried. */
import { S3ServiceException } from '@aws-sdk/client-s3';
import { namedStorageError } from '../../../src/core/aws/storage-errors.ts';
import { isRetryable } from '../../../src/core/errors/errors.ts';

const failure = (name: string, httpStatusCode: number): S3ServiceException =>
  new S3ServiceException({ name, message: 'from S3', $fault: 'client', $metadata: { httpStatusCode } });

it.each([
  // An idle connection, which S3 reports as a client error.
  ['RequestTimeout', 400, 'StorageUnavailable', true],
  ['SlowDown', 503, 'StorageThrottled', true],
  ['InternalError', 500, 'StorageUnavailable', true],
  ['TooManyRequests', 429, 'StorageUnavailable', true],
  ['ExpiredToken', 400, 'CredentialsExpired', true],
  ['InvalidRequest', 400, 'StorageRefused', false],
  ['AccessDenied', 403, 'StorageAccessDenied', false],
  ['NoSuchBucket', 404, 'BucketMissing', false],
])('%s (HTTP %d) is %s', (name, status, expected, passes) => {
  const named = namedStorageError(failure(name, status), 's3://bucket/key');
  expect(named).toMatchObject({ name: expected, message: expect.stringContaining(`${name}: HTTP ${status}`) });
  expect(isRetryable(named)).toBe(passes);
});

it('retries a request without any reply', () => {
  expect(isRetryable(namedStorageError(new Error('socket hang up'), 's3://bucket/key'))).toBe(true);
});
