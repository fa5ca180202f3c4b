/** Multipart uploads to S3, for objects whose size is large or unknown. */
import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { Upload } from '@aws-sdk/lib-storage';
import type { Storage } from './storage.ts';
import { namedStorageError } from './storage-errors.ts';

/** Uploads a stream of any length. Uses up to four parts of 5 MiB in memory. @throws also the errors of the stream */
export async function putStream(
  storage: Storage,
  bucket: string,
  key: string,
  body: Readable,
  contentType: string,
): Promise<void> {
  const params = { Bucket: bucket, Key: key, Body: body, ContentType: contentType };
  try {
    await new Upload({ client: storage.s3, params }).done();
  } catch (error) {
    throw namedStorageError(error, `s3://${bucket}/${key}`);
  }
}

/** Uploads a file of any size. */
export const putFile = (storage: Storage, bucket: string, key: string, path: string, contentType: string) =>
  putStream(storage, bucket, key, createReadStream(path), contentType);
