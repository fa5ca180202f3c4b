/** S3 as the pipeline uses it: ranges under `If-Match`, small JSON objects, conditional writes, listings as streams. */
import type { Readable } from 'node:stream';
import {
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { PermanentError, RetryableError } from './errors.ts';

/** S3 asks clients to back off for a while under SlowDown: 6 attempts are 5 waits of up to 0.1, 0.2, … 1.6 s. */
const S3_ATTEMPTS = 6;

/** An S3 client for the real service, and path-style for an emulator that is named by `AWS_ENDPOINT_URL`. */
export function createS3Client(): S3Client {
  const emulated = process.env.AWS_ENDPOINT_URL ?? process.env.AWS_ENDPOINT_URL_S3;
  return new S3Client({ maxAttempts: S3_ATTEMPTS, forcePathStyle: emulated !== undefined });
}

export interface ObjectFacts {
  bucket: string;
  key: string;
  /** Without quotes. */
  etag: string;
  versionId?: string;
  size: number;
  lastModifiedMs: number;
}

export interface StoredText {
  text: string;
  etag: string;
}

const unquote = (etag: string | undefined): string => (etag ?? '').replaceAll('"', '');

/** Reads and writes objects; every failure comes out as a named error. */
export class Storage {
  readonly s3: S3Client;

  constructor(s3: S3Client) {
    this.s3 = s3;
  }

  /** @returns the object's facts, `undefined` when it does not exist. */
  async head(bucket: string, key: string): Promise<ObjectFacts | undefined> {
    try {
      const reply = await this.s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
      return {
        bucket,
        key,
        etag: unquote(reply.ETag),
        // "null" is the version of an object written before versioning was switched on; it cannot be asked for by name.
        ...(reply.VersionId && reply.VersionId !== 'null' ? { versionId: reply.VersionId } : {}),
        size: reply.ContentLength ?? 0,
        lastModifiedMs: reply.LastModified?.getTime() ?? 0,
      };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw namedStorageError(error, `s3://${bucket}/${key}`);
    }
  }

  /**
   * Streams bytes `start`..`end` (inclusive; the whole object without them) of the object as it was when `etag` was seen.
   *
   * @throws PermanentError `CaptureChanged` when the object was overwritten since, `CaptureMissing` when it is gone.
   */
  async read(
    object: { bucket: string; key: string; etag: string; versionId?: string },
    range?: { start: number; end?: number },
    signal?: AbortSignal,
  ): Promise<Readable> {
    const place = `s3://${object.bucket}/${object.key}`;
    try {
      const reply = await this.s3.send(
        new GetObjectCommand({
          Bucket: object.bucket,
          Key: object.key,
          IfMatch: `"${object.etag}"`,
          ...(object.versionId ? { VersionId: object.versionId } : {}),
          ...(range ? { Range: `bytes=${range.start}-${range.end ?? ''}` } : {}),
        }),
        signal ? { abortSignal: signal } : {},
      );
      return reply.Body as Readable;
    } catch (error) {
      if (statusOf(error) === 412) {
        throw new PermanentError(
          'CaptureChanged',
          'The capture file was overwritten after this run planned it; start a new run on it',
          { expected: `etag ${object.etag}`, where: place },
          error,
        );
      }
      if (isMissing(error)) {
        throw new PermanentError(
          'CaptureMissing',
          'The capture file was deleted after this run planned it',
          { expected: `etag ${object.etag}`, where: place },
          error,
        );
      }
      throw namedStorageError(error, place);
    }
  }

  /** @returns the object's text, `undefined` when it does not exist. */
  async getText(bucket: string, key: string): Promise<StoredText | undefined> {
    try {
      const reply = await this.s3.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
      return { text: (await reply.Body?.transformToString()) ?? '', etag: unquote(reply.ETag) };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw namedStorageError(error, `s3://${bucket}/${key}`);
    }
  }

  async getJson<T>(bucket: string, key: string): Promise<T | undefined> {
    const stored = await this.getText(bucket, key);
    return stored === undefined ? undefined : (JSON.parse(stored.text) as T);
  }

  async putText(bucket: string, key: string, body: string, contentType = 'application/json'): Promise<void> {
    try {
      // The SDK tells no length of an empty text by itself.
      const length = { ContentLength: Buffer.byteLength(body) };
      await this.s3.send(
        new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ContentType: contentType, ...length }),
      );
    } catch (error) {
      throw namedStorageError(error, `s3://${bucket}/${key}`);
    }
  }

  async putJson(bucket: string, key: string, value: unknown): Promise<void> {
    await this.putText(bucket, key, JSON.stringify(value));
  }

  /**
   * Writes only if the object does not exist (`replaces` undefined) or still has the etag `replaces`.
   *
   * @returns whether it was written.
   */
  async putJsonIf(bucket: string, key: string, value: unknown, replaces?: string): Promise<boolean> {
    try {
      await this.s3.send(
        new PutObjectCommand({
          Bucket: bucket,
          Key: key,
          Body: JSON.stringify(value),
          ContentType: 'application/json',
          ...(replaces === undefined ? { IfNoneMatch: '*' } : { IfMatch: `"${replaces}"` }),
        }),
      );
      return true;
    } catch (error) {
      // 409 is a conditional request that met another one under way; 404 an IfMatch on an object that is gone.
      if (statusOf(error) === 412 || statusOf(error) === 409 || statusOf(error) === 404) return false;
      throw namedStorageError(error, `s3://${bucket}/${key}`);
    }
  }

  /** Keys under a prefix in S3's order, a page at a time; `nextAfter` may be set by the consumer to jump ahead. */
  async *list(
    bucket: string,
    prefix: string,
    startAfter?: string,
  ): AsyncGenerator<ObjectFacts, void, string | undefined> {
    let after = startAfter;
    for (;;) {
      const page = await this.listPage(bucket, prefix, after);
      let jump: string | undefined;
      for (const object of page.objects) {
        jump = yield object;
        if (jump !== undefined) break;
        after = object.key;
      }
      if (jump !== undefined) after = jump;
      else if (!page.more) return;
    }
  }

  private async listPage(bucket: string, prefix: string, after?: string) {
    try {
      const reply = await this.s3.send(
        new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ...(after ? { StartAfter: after } : {}) }),
      );
      const objects = (reply.Contents ?? []).map(
        (entry): ObjectFacts => ({
          bucket,
          key: entry.Key ?? '',
          etag: unquote(entry.ETag),
          size: entry.Size ?? 0,
          lastModifiedMs: entry.LastModified?.getTime() ?? 0,
        }),
      );
      return { objects, more: reply.IsTruncated === true && objects.length > 0 };
    } catch (error) {
      throw namedStorageError(error, `s3://${bucket}/${prefix}`);
    }
  }
}

const statusOf = (error: unknown): number | undefined =>
  error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined;

const isMissing = (error: unknown): boolean =>
  error instanceof S3ServiceException &&
  (error.name === 'NoSuchKey' ||
    error.name === 'NotFound' ||
    error.name === 'NoSuchVersion' ||
    statusOf(error) === 404) &&
  error.name !== 'NoSuchBucket';

/** S3 ends a connection on which nothing comes for 20 s, as of a sender that is short of CPU, and calls it a 400. */
const IDLE_CONNECTION = 'RequestTimeout';

const EXPIRED_NAMES = new Set(['ExpiredToken', 'ExpiredTokenException', 'TokenRefreshRequired', 'RequestExpired']);

/** Puts one of the pipeline's names on an S3 failure: what may pass by itself is retryable. */
export function namedStorageError(error: unknown, where: string): Error {
  const status = statusOf(error);
  const name = error instanceof Error ? error.name : 'Unknown';
  const message = error instanceof Error ? error.message : String(error);
  const facts = { got: `${name}${status ? ` (HTTP ${status})` : ''}: ${message}`, where };
  if (EXPIRED_NAMES.has(name)) {
    return new RetryableError('CredentialsExpired', 'The credentials for S3 have expired', facts, error);
  }
  if (status === 403) {
    return new PermanentError(
      'StorageAccessDenied',
      'S3 denied access; without s3:ListBucket a missing key is also reported so',
      facts,
      error,
    );
  }
  if (name === 'NoSuchBucket') return new PermanentError('BucketMissing', 'The bucket does not exist', facts, error);
  const isPassing = status === 408 || status === 429 || name === IDLE_CONNECTION;
  if (status !== undefined && status >= 400 && status < 500 && !isPassing) {
    return new PermanentError('StorageRefused', 'S3 refused the request', facts, error);
  }
  return new RetryableError('StorageUnavailable', 'S3 did not answer', facts, error);
}
