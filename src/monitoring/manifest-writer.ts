/** Writes a manifest to S3 as it grows, so that planning needs the same memory for ten chunks and for a million. */

import type { ManifestLine } from '../contract/payloads.ts';
import type { Storage } from '../shared/storage.ts';
import { TextUpload } from '../shared/uploads.ts';

export class ManifestWriter<Line = ManifestLine> {
  readonly #upload: TextUpload;

  constructor(storage: Storage, bucket: string, key: string) {
    this.#upload = new TextUpload(storage, bucket, key, 'application/jsonlines');
  }

  write(line: Line): Promise<void> {
    return this.#upload.write(`${JSON.stringify(line)}\n`);
  }

  /** Resolves when S3 has the whole object. */
  close(): Promise<void> {
    return this.#upload.close();
  }
}
