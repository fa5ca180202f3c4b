/**
 * Measures the emulated S3 with a process that only reads or copies: the baseline for planning and merging.
 *
 *     node bench/replay-support/bare-s3.ts read|copy BUCKET KEY…
 */
import { Readable } from 'node:stream';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { createS3Client } from '../../src/core/aws/storage.ts';

const [mode = '', Bucket = '', ...keys] = process.argv.slice(2);
const s3 = createS3Client();
let bytes = 0;

async function* contents(): AsyncGenerator<Buffer> {
  for (const Key of keys) {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
    for await (const chunk of Body as Readable) {
      bytes += (chunk as Buffer).length;
      yield chunk as Buffer;
    }
  }
}

const startedAt = performance.now();
if (mode === 'copy') {
  const params = { Bucket, Key: 'bare-copy', Body: Readable.from(contents()) };
  await new Upload({ client: s3, params }).done();
} else {
  for await (const _ of contents());
}
const seconds = (performance.now() - startedAt) / 1000;
console.log(JSON.stringify({ seconds, result: { bytes } }));
process.exit(0);
