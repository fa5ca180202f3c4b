/** The S3 operations of the pipeline: ranges under `If-Match`, small JSON objects, conditional writes, listings. */
import * as s3 from '@aws-sdk/client-s3';
import type { ObjectVersion } from '../contract/execution.ts';
import { PermanentError } from '../errors/errors.ts';
import { countThrottle } from '../process/throttles.ts';
import { objectBytes, requestObject, unquote } from './object-stream.ts';
import { httpStatusOf, isMissing, isThrottled, namedStorageError, notS3, parseStored } from './storage-errors.ts';

/** S3 asks clients to back off when it returns SlowDown: 6 attempts have 5 waits of up to 1, 2, … 16 s. */
const S3_ATTEMPTS = 6;

/** Creates an S3 client; with path-style addresses where `AWS_ENDPOINT_URL` names an emulator. */
export function createS3Client(config: s3.S3ClientConfig = {}): s3.S3Client {
  const emulated = process.env.AWS_ENDPOINT_URL ?? process.env.AWS_ENDPOINT_URL_S3;
  const client = new s3.S3Client({ maxAttempts: S3_ATTEMPTS, forcePathStyle: emulated !== undefined, ...config });
  // Count inside the SDK's retries: most throttled requests succeed at the next attempt.
  client.middlewareStack.add(
    (next) => async (args) => {
      try {
        return await next(args);
      } catch (error) {
        if (isThrottled(error)) countThrottle('storage');
        throw error;
      }
    },
    { step: 'finalizeRequest', priority: 'low', name: 'countThrottles' },
  );
  return client;
}

export interface ObjectFacts extends ObjectVersion {
  size: number;
  lastModifiedMs: number;
}

interface Content {
  body: string | Buffer;
  type: string;
}

/** The bucket that a stack keeps its own objects in. */
export interface Work {
  storage: Storage;
  workBucket: string;
}

/**
 * Reads and writes objects. Every failure is a named error, see `namedStorageError`.
 *
 * @example
 *     const storage = new Storage(createS3Client());
 *     const plan = await storage.getJson<Plan>(workBucket, 'runs/r1/plan.json');   // undefined if it does not exist
 */
export class Storage {
  readonly s3: s3.S3Client;

  constructor(s3: s3.S3Client) {
    this.s3 = s3;
  }

  /** Returns the facts of the object, or of the given version. Returns `undefined` if it does not exist. */
  async head(bucket: string, key: string, version?: string): Promise<ObjectFacts | undefined> {
    const where = `s3://${bucket}/${key}`;
    try {
      const reply = await this.s3.send(new s3.HeadObjectCommand({ Bucket: bucket, Key: key, VersionId: version }));
      if (reply.ETag === undefined) throw notS3('a reply without an etag', where);
      return {
        bucket,
        key,
        etag: unquote(reply.ETag),
        // "null" is the version of an object that is older than the bucket's versioning. It cannot be requested by name.
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
   * Streams the bytes `start`..`end` (inclusive) of the object with this etag; without a range, the whole object. Where
   * the connection breaks the stream resumes. It ends after every byte, or with a named error.
   *
   * @throws PermanentError `CaptureChanged` if the object was overwritten since, `CaptureMissing` if it was deleted,
   *   `CaptureArchived`; RetryableError `StorageUnavailable` if not every byte could be read.
   */
  async read(
    object: ObjectVersion & { size?: number },
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
    const first = await requestObject(this.s3, request, range && { start, end }, signal);
    return objectBytes(this.s3, first, request, start, end, signal);
  }

  /** Returns the text of the object, `undefined` if it does not exist. */
  async getText(bucket: string, key: string): Promise<{ text: string; etag: string } | undefined> {
    const stored = await this.getBytes(bucket, key);
    return stored && { text: stored.bytes.toString('utf8'), etag: stored.etag };
  }

  /** Returns the bytes of the object, `undefined` if it does not exist. */
  async getBytes(bucket: string, key: string): Promise<{ bytes: Buffer; etag: string } | undefined> {
    const request = { Bucket: bucket, Key: key };
    try {
      const reply = await this.s3.send(new s3.GetObjectCommand(request));
      const pieces = await Array.fromAsync(objectBytes(this.s3, reply, { ...request, IfMatch: reply.ETag }));
      return { bytes: Buffer.concat(pieces), etag: unquote(reply.ETag) };
    } catch (error) {
      if (isMissing(error)) return undefined;
      const where = `s3://${bucket}/${key}`;
      // The object was overwritten while it was read. The next attempt reads the new one.
      if (error instanceof PermanentError && CHANGED_NAMES.has(error.name)) throw notS3('another object', where);
      throw namedStorageError(error, where);
    }
  }

  async getJson<T>(bucket: string, key: string): Promise<T | undefined> {
    const stored = await this.getText(bucket, key);
    return stored === undefined ? undefined : parseStored<T>(stored.text, `s3://${bucket}/${key}`);
  }

  /** Reads the values of a JSON Lines object. @returns an empty list when the object does not exist */
  async getJsonLines<T>(bucket: string, key: string): Promise<T[]> {
    const lines = (await this.getText(bucket, key))?.text.split('\n') ?? [];
    return lines.filter((line) => line !== '').map((line) => parseStored<T>(line, `s3://${bucket}/${key}`));
  }

  putText(bucket: string, key: string, body: string, type = 'application/json'): Promise<void> {
    return this.putBytes(bucket, key, { body, type });
  }

  /** Writes an object with any content. */
  async putBytes(bucket: string, key: string, content: Content): Promise<void> {
    await this.#put(bucket, key, content).catch((error: unknown) => {
      throw namedStorageError(error, `s3://${bucket}/${key}`);
    });
  }

  async #put(
    bucket: string,
    key: string,
    { body, type }: Content,
    condition: Pick<s3.PutObjectCommandInput, 'IfMatch' | 'IfNoneMatch'> = {},
  ): Promise<string> {
    // The SDK does not send the length of an empty text by itself.
    const content = { Body: body, ContentType: type, ContentLength: Buffer.byteLength(body) };
    const { ETag } = await this.s3.send(
      new s3.PutObjectCommand({ Bucket: bucket, Key: key, ...content, ...condition }),
    );
    return unquote(ETag) || 'unknown';
  }

  async putJson(bucket: string, key: string, value: unknown): Promise<void> {
    await this.putText(bucket, key, JSON.stringify(value));
  }

  /**
   * Writes the object only if it does not exist (`replaces` undefined) or still has the etag `replaces`.
   *
   * @returns the new etag, `undefined` if the object was not written
   */
  putJsonIf(bucket: string, key: string, value: unknown, replaces?: string): Promise<string | undefined> {
    return this.putIf(bucket, key, { body: JSON.stringify(value), type: 'application/json' }, replaces);
  }

  /** Like `putJsonIf`, for any content. */
  async putIf(bucket: string, key: string, content: Content, replaces?: string): Promise<string | undefined> {
    try {
      const condition = replaces === undefined ? { IfNoneMatch: '*' } : { IfMatch: `"${replaces}"` };
      return await this.#put(bucket, key, content, condition);
    } catch (error) {
      // 409: another conditional request was in flight. 404: IfMatch on an object that no longer exists.
      if (httpStatusOf(error) === 412 || httpStatusOf(error) === 409 || httpStatusOf(error) === 404) return undefined;
      throw namedStorageError(error, `s3://${bucket}/${key}`);
    }
  }

  /** Lists the objects under a prefix in the order of S3. A consumer can pass a key to `next` to jump behind it. */
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

  /** Lists the objects directly in a folder, without objects in its subfolders. */
  async *listFolder(bucket: string, folder: string): AsyncGenerator<ObjectFacts> {
    let token: string | undefined;
    do {
      const page = await this.listPage(bucket, folder, undefined, { Delimiter: '/', ContinuationToken: token });
      yield* page.objects;
      token = page.token;
    } while (token !== undefined);
  }

  /** Whether there is an object under the prefix. */
  async hasAny(bucket: string, prefix: string): Promise<boolean> {
    return (await this.listPage(bucket, prefix, undefined, { MaxKeys: 1 })).objects.length > 0;
  }

  private async listPage(
    bucket: string,
    prefix: string,
    after?: string,
    more: Partial<s3.ListObjectsV2CommandInput> = {},
  ) {
    try {
      const reply = await this.s3.send(
        new s3.ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, StartAfter: after || undefined, ...more }),
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
      // A page of another server, such as a gateway, must not look like an empty listing.
      if (reply.IsTruncated === undefined) throw notS3('no listing', `s3://${bucket}/${prefix}`);
      return { objects, more: reply.IsTruncated && objects.length > 0, token: reply.NextContinuationToken };
    } catch (error) {
      throw namedStorageError(error, `s3://${bucket}/${prefix}`);
    }
  }
}

const CHANGED_NAMES = new Set(['CaptureChanged', 'CaptureMissing']);
