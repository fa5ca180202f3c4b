/** Multipart uploads to S3, for objects whose size is large or unknown. */
import { createReadStream } from 'node:fs';
import { PassThrough } from 'node:stream';
import { Upload } from '@aws-sdk/lib-storage';
import type { Storage } from './storage.ts';
import { namedStorageError } from './storage-errors.ts';

/** Uploads a file of any size. Uses up to four parts of 5 MiB in memory. */
export async function putFile(
  storage: Storage,
  bucket: string,
  key: string,
  path: string,
  contentType: string,
): Promise<void> {
  const params = { Bucket: bucket, Key: key, Body: createReadStream(path), ContentType: contentType };
  try {
    await new Upload({ client: storage.s3, params }).done();
  } catch (error) {
    throw namedStorageError(error, `s3://${bucket}/${key}`);
  }
}

/** Uploads an object while it is being written. Memory use does not depend on its size. */
export class TextUpload {
  readonly #stream = new PassThrough();
  readonly #done: Promise<void>;
  #failure: unknown;

  constructor(storage: Storage, bucket: string, key: string, contentType = 'application/jsonlines') {
    const upload = new Upload({
      client: storage.s3,
      // One part at a time is in memory: 5 MiB, S3’s minimum.
      queueSize: 1,
      params: { Bucket: bucket, Key: key, Body: this.#stream, ContentType: contentType },
    });
    this.#done = upload.done().then(
      () => undefined,
      (error: unknown) => {
        this.#failure = namedStorageError(error, `s3://${bucket}/${key}`);
        this.#stream.destroy();
      },
    );
  }

  /** Resolves when there is room for more. */
  async write(text: string | Buffer): Promise<void> {
    if (this.#failure) throw this.#failure;
    if (this.#stream.write(text)) return;
    // A failed upload destroys the stream, which then never emits `drain`.
    await Promise.race([new Promise((resolve) => this.#stream.once('drain', resolve)), this.#done]);
  }

  /** Writes a value as a line of JSON. */
  writeLine(value: unknown): Promise<void> {
    return this.write(`${JSON.stringify(value)}\n`);
  }

  /** Resolves when S3 has the whole object. */
  async close(): Promise<void> {
    this.#stream.end();
    await this.#done;
    if (this.#failure) throw this.#failure;
  }
}
