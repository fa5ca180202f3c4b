/** Writes a manifest to S3 as it grows, so that planning needs the same memory for ten chunks and for a million. */
import { PassThrough } from 'node:stream';
import { Upload } from '@aws-sdk/lib-storage';
import { namedStorageError, type Storage } from '../common/storage.ts';
import type { ManifestLine } from '../contract.ts';

export class ManifestWriter {
  readonly #stream = new PassThrough();
  readonly #done: Promise<void>;
  #failure: unknown;

  constructor(storage: Storage, bucket: string, key: string) {
    const upload = new Upload({
      client: storage.s3,
      // One part of 5 MiB (S3's least) in memory at a time.
      queueSize: 1,
      params: { Bucket: bucket, Key: key, Body: this.#stream, ContentType: 'application/jsonlines' },
    });
    this.#done = upload.done().then(
      () => undefined,
      (error: unknown) => {
        this.#failure = namedStorageError(error, `s3://${bucket}/${key}`);
        this.#stream.destroy();
      },
    );
  }

  async write(line: ManifestLine): Promise<void> {
    if (this.#failure) throw this.#failure;
    if (this.#stream.write(`${JSON.stringify(line)}\n`)) return;
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
