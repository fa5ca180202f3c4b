/** S3 as the pipeline uses it: ranges under `If-Match`, small JSON objects, conditional writes, listings as streams. */
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  GetObjectCommand,
  type GetObjectCommandInput,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandInput,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { PermanentError, PipelineError, RetryableError, toNamedError } from './errors.ts';

/** S3 asks clients to back off for a while under SlowDown: 6 attempts are 5 waits of up to 0.1, 0.2, … 1.6 s. */
const S3_ATTEMPTS = 6;

/** A body that breaks off is asked for again from there, this often without a byte in between: waits of 0.1, 0.2, 0.4 s. */
const BODY_ATTEMPTS = 4;
const BODY_WAIT_MS = 100;

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

export const unquote = (etag: string | undefined): string => (etag ?? '').replaceAll('"', '');

/** Reads and writes objects; every failure comes out as a named error. */
export class Storage {
  readonly s3: S3Client;

  constructor(s3: S3Client) {
    this.s3 = s3;
  }

  /** @returns the object's facts, of that version where one is named; `undefined` when it does not exist. */
  async head(bucket: string, key: string, version?: string): Promise<ObjectFacts | undefined> {
    const where = `s3://${bucket}/${key}`;
    try {
      const reply = await this.s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key, VersionId: version }));
      if (reply.ETag === undefined) throw notS3('a reply without an etag', where);
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
      throw namedStorageError(error, where);
    }
  }

  /**
   * Streams bytes `start`..`end` (inclusive; the whole object without them) of the object as it was when `etag` was seen.
   * Where the connection breaks the stream goes on from there; it ends with every byte, or with a named error.
   *
   * @throws PermanentError `CaptureChanged` when the object was overwritten since, `CaptureMissing` when it is gone,
   *   `CaptureArchived`; RetryableError `StorageUnavailable` when not all of it can be had.
   */
  async read(
    object: { bucket: string; key: string; etag: string; versionId?: string; size?: number },
    range?: { start: number; end?: number },
    signal?: AbortSignal,
  ): Promise<AsyncIterable<Buffer>> {
    const request = {
      Bucket: object.bucket,
      Key: object.key,
      IfMatch: `"${object.etag}"`,
      ...(object.versionId ? { VersionId: object.versionId } : {}),
    };
    const start = range?.start ?? 0;
    const end = range?.end ?? (object.size === undefined ? undefined : object.size - 1);
    const first = await this.#get(request, range && { start, end }, signal);
    return this.#body(first, request, start, end, signal);
  }

  async #get(
    request: GetObjectCommandInput,
    range: { start: number; end: number | undefined } | undefined,
    signal: AbortSignal | undefined,
  ): Promise<GetObjectCommandOutput> {
    const place = `s3://${request.Bucket}/${request.Key}`;
    let changed = false;
    try {
      const reply = await this.s3.send(
        new GetObjectCommand({ ...request, ...(range ? { Range: `bytes=${range.start}-${range.end ?? ''}` } : {}) }),
        signal ? { abortSignal: signal } : {},
      );
      // Nothing of an answer is handed on that is not of this object, as it was, from this byte on.
      changed = reply.ETag !== undefined && unquote(reply.ETag) !== unquote(request.IfMatch);
      if (!changed && reply.ETag !== undefined && (!range?.start || reply.ContentRange !== undefined)) return reply;
      (reply.Body as Readable | undefined)?.destroy();
      throw notS3(range?.start ? 'a reply without the etag or the range' : 'a reply without an etag', place);
    } catch (error) {
      const facts = { expected: `etag ${unquote(request.IfMatch)}`, where: place };
      if (changed || statusOf(error) === 412) {
        throw new PermanentError(
          'CaptureChanged',
          'The capture file was overwritten after this run planned it; start a new run on it',
          facts,
          error,
        );
      }
      if (isMissing(error)) {
        throw new PermanentError(
          'CaptureMissing',
          'The capture file was deleted after this run planned it',
          facts,
          error,
        );
      }
      throw namedStorageError(error, place);
    }
  }

  /** The bytes of a reply; where it breaks off or ends early, those of further requests from there on. */
  async *#body(
    first: GetObjectCommandOutput,
    request: GetObjectCommandInput,
    start: number,
    end: number | undefined,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Buffer, void, undefined> {
    const where = `s3://${request.Bucket}/${request.Key}`;
    const expected = end === undefined ? first.ContentLength : end - start + 1;
    let reply: GetObjectCommandOutput | undefined = first;
    let read = 0;
    let failures = 0;
    for (;;) {
      let failure: unknown;
      try {
        const from = { start: start + read, end };
        reply ??= await this.#get(request, from, signal);
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
      if (failures >= BODY_ATTEMPTS || (expected !== undefined && read >= expected)) throw failure;
      reply = undefined;
      await sleep(BODY_WAIT_MS * 2 ** (failures - 1), undefined, signal ? { signal } : {});
    }
  }

  /** @returns the object's text, `undefined` when it does not exist. */
  async getText(bucket: string, key: string): Promise<StoredText | undefined> {
    const request = { Bucket: bucket, Key: key };
    try {
      const reply = await this.s3.send(new GetObjectCommand(request));
      const pieces: Buffer[] = [];
      const same = { ...request, IfMatch: reply.ETag };
      for await (const piece of this.#body(reply, same, 0, undefined, undefined)) pieces.push(piece);
      return { text: Buffer.concat(pieces).toString('utf8'), etag: unquote(reply.ETag) };
    } catch (error) {
      if (isMissing(error)) return undefined;
      const where = `s3://${bucket}/${key}`;
      // Between its first bytes and the rest it was written again: the next attempt reads the new one.
      if (error instanceof PermanentError && CHANGED_NAMES.has(error.name)) throw notS3('another object', where);
      throw namedStorageError(error, where);
    }
  }

  async getJson<T>(bucket: string, key: string): Promise<T | undefined> {
    const stored = await this.getText(bucket, key);
    return stored === undefined ? undefined : parseStored<T>(stored.text, `s3://${bucket}/${key}`);
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
   * @returns its etag, `undefined` when it was not written
   */
  async putJsonIf(bucket: string, key: string, value: unknown, replaces?: string): Promise<string | undefined> {
    try {
      const { ETag } = await this.s3.send(
        new PutObjectCommand({
          Bucket: bucket,
          Key: key,
          Body: JSON.stringify(value),
          ContentType: 'application/json',
          ...(replaces === undefined ? { IfNoneMatch: '*' } : { IfMatch: `"${replaces}"` }),
        }),
      );
      return unquote(ETag) || 'unknown';
    } catch (error) {
      // 409 is a conditional request that met another one under way; 404 an IfMatch on an object that is gone.
      if (statusOf(error) === 412 || statusOf(error) === 409 || statusOf(error) === 404) return undefined;
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

  /** Objects that lie in the folder itself; those of its folders are not looked at. */
  async *listFolder(bucket: string, folder: string): AsyncGenerator<ObjectFacts> {
    let token: string | undefined;
    do {
      const page = await this.listPage(bucket, folder, undefined, { Delimiter: '/', ContinuationToken: token });
      yield* page.objects;
      token = page.token;
    } while (token !== undefined);
  }

  private async listPage(
    bucket: string,
    prefix: string,
    after?: string,
    more: Partial<ListObjectsV2CommandInput> = {},
  ) {
    try {
      const reply = await this.s3.send(
        new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, StartAfter: after || undefined, ...more }),
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
      // A page of another server, which is no listing, must not pass for an empty one.
      if (reply.IsTruncated === undefined) throw notS3('no listing', `s3://${bucket}/${prefix}`);
      return { objects, more: reply.IsTruncated && objects.length > 0, token: reply.NextContinuationToken };
    } catch (error) {
      throw namedStorageError(error, `s3://${bucket}/${prefix}`);
    }
  }
}

const CHANGED_NAMES = new Set(['CaptureChanged', 'CaptureMissing']);

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

/** An answer that is none of S3's, such as a gateway's page with status 200. */
const notS3 = (got: string, where: string): RetryableError =>
  new RetryableError('StorageUnavailable', 'This is not an answer of S3', { got, where });

/** What the pipeline has stored as JSON. An error quotes nothing of it. */
export function parseStored<T>(text: string, where: string): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    throw notS3(`${text.length} characters that are not JSON`, where);
  }
}

/** Puts one of the pipeline's names on an S3 failure: what may pass by itself is retryable. */
export function namedStorageError(error: unknown, where: string): Error {
  if (error instanceof PipelineError) return error;
  const status = statusOf(error);
  const name = error instanceof Error ? error.name : 'Unknown';
  const said = toNamedError(error);
  const facts = { got: `${said.name}${status ? ` (HTTP ${status})` : ''}: ${said.message}`, where };
  if (EXPIRED_NAMES.has(name)) {
    return new RetryableError('CredentialsExpired', 'The credentials for S3 have expired', facts, error);
  }
  if (name === 'InvalidObjectState') {
    return new PermanentError('CaptureArchived', 'S3 has archived the capture file; restore it first', facts, error);
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
