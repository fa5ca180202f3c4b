/** Reads an S3 object as a stream that resumes where a connection breaks. */
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  GetObjectCommand,
  type GetObjectCommandInput,
  type GetObjectCommandOutput,
  type S3Client,
} from '@aws-sdk/client-s3';
import { PermanentError, RetryableError } from '../errors/errors.ts';
import { waitAfter } from '../process/retry.ts';
import { httpStatusOf, isMissing, namedStorageError, notS3 } from './storage-errors.ts';

/** Requests for the rest of a broken body without a byte in between; the waits are 0.1, 0.2 and 0.4 s on average. */
const RESUME_RETRY = { attempts: 4, baseMs: 200, capMs: 1_000, longestRetryAfterMs: 0 };

export const unquote = (etag: string | undefined): string => (etag ?? '').replaceAll('"', '');

/**
 * Requests an object, or a range of it, with `IfMatch`.
 *
 * @param range bytes, both inclusive
 * @throws PermanentError `CaptureChanged`, `CaptureMissing`, and the errors of `namedStorageError`
 */
export async function requestObject(
  s3: S3Client,
  request: GetObjectCommandInput,
  range: { start: number; end: number | undefined } | undefined,
  signal: AbortSignal | undefined,
): Promise<GetObjectCommandOutput> {
  const where = `s3://${request.Bucket}/${request.Key}`;
  let changed = false;
  try {
    const reply = await s3.send(
      new GetObjectCommand({ ...request, ...(range ? { Range: `bytes=${range.start}-${range.end ?? ''}` } : {}) }),
      signal ? { abortSignal: signal } : {},
    );
    // Only bytes of this object, in this version and from this position on, may be passed on.
    changed = reply.ETag !== undefined && unquote(reply.ETag) !== unquote(request.IfMatch);
    if (!changed && reply.ETag !== undefined && (!range?.start || reply.ContentRange !== undefined)) return reply;
    (reply.Body as Readable | undefined)?.destroy();
    throw notS3(range?.start ? 'a reply without the etag or the range' : 'a reply without an etag', where);
  } catch (error) {
    const facts = { expected: `etag ${unquote(request.IfMatch)}`, where };
    if (changed || httpStatusOf(error) === 412) {
      const message = 'The capture file was overwritten after this run planned it; start a new run on it';
      throw new PermanentError('CaptureChanged', message, facts, error);
    }
    const deleted = 'The capture file was deleted after this run planned it';
    if (isMissing(error)) throw new PermanentError('CaptureMissing', deleted, facts, error);
    throw namedStorageError(error, where);
  }
}

/**
 * Yields the bytes of a reply, and where it breaks off or ends early, the rest by further requests.
 *
 * @param first the reply to `request`
 * @param start the position of its first byte
 * @param end the position of its last byte; `undefined`: the end of the object
 */
export async function* objectBytes(
  s3: S3Client,
  first: GetObjectCommandOutput,
  request: GetObjectCommandInput,
  start = 0,
  end?: number,
  signal?: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  const where = `s3://${request.Bucket}/${request.Key}`;
  const expected = end === undefined ? first.ContentLength : end - start + 1;
  let reply: GetObjectCommandOutput | undefined = first;
  let read = 0;
  let failures = 0;
  for (;;) {
    let failure: unknown;
    try {
      reply ??= await requestObject(s3, request, { start: start + read, end }, signal);
      for await (const piece of (reply.Body ?? []) as Readable) {
        read += (piece as Buffer).length;
        if (expected !== undefined && read > expected) throw notS3(`more than ${expected} bytes`, where);
        failures = 0;
        yield piece as Buffer;
      }
    } catch (error) {
      failure = namedStorageError(error, where);
      if (!(failure instanceof RetryableError) || signal?.aborted) throw failure;
    }
    if (failure === undefined && (expected === undefined || read === expected)) return;
    failure ??= new RetryableError('StorageUnavailable', 'S3 ended the object early', {
      got: `${read} bytes`,
      expected: `${expected} bytes`,
      where,
    });
    failures += 1;
    const wait = waitAfter(RESUME_RETRY, failures);
    if (wait === undefined || (expected !== undefined && read >= expected)) throw failure;
    reply = undefined;
    await sleep(wait, undefined, signal && { signal });
  }
}
