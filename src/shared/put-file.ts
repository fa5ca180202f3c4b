import { createReadStream } from 'node:fs';
import { Upload } from '@aws-sdk/lib-storage';
import { namedStorageError, type Storage } from './storage.ts';

/** Puts a file of any size into S3, in parts when it is large. Memory: four parts of 5 MiB. */
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
