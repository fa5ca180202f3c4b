/** Writes an object to S3 as it grows, in parts: the same memory for a kilobyte and for gigabytes. */
import { PassThrough } from 'node:stream';
import { Upload } from '@aws-sdk/lib-storage';
import { namedStorageError, type Storage } from './storage.ts';

export class TextUpload {
  readonly #stream = new PassThrough();
  readonly #done: Promise<void>;
  #failure: unknown;

  constructor(storage: Storage, bucket: string, key: string, contentType: string) {
    const upload = new Upload({
      client: storage.s3,
      // One part of 5 MiB (S3's least) in memory at a time.
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
    // A failed upload destroys the stream, and then no drain comes.
    await Promise.race([new Promise((resolve) => this.#stream.once('drain', resolve)), this.#done]);
  }

  /** Resolves when S3 has the whole object. */
  async close(): Promise<void> {
    this.#stream.end();
    await this.#done;
    if (this.#failure) throw this.#failure;
  }
}
