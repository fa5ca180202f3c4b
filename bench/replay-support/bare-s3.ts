/**
 * Measures the emulated S3 with a process that only reads: the baseline for planning.
 *
 *     node bench/replay-support/bare-s3.ts BUCKET KEY…
 */
import type { Readable } from 'node:stream';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { createS3Client } from '../../src/core/aws/storage.ts';

const [Bucket = '', ...keys] = process.argv.slice(2);
const s3 = createS3Client();
let bytes = 0;

const startedAt = performance.now();
for (const Key of keys) {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  for await (const chunk of Body as Readable) bytes += (chunk as Buffer).length;
}
const seconds = (performance.now() - startedAt) / 1000;
console.log(JSON.stringify({ seconds, result: { bytes } }));
process.exit(0);
