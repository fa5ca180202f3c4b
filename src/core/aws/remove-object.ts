/** Deletes an object. Apart from the other operations of the storage, since few functions may do it. */
import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import type { Storage } from './storage.ts';
import { namedStorageError } from './storage-errors.ts';

/** Deletes the object, if it exists. @throws the errors of `namedStorageError` */
export async function removeObject({ s3 }: Pick<Storage, 's3'>, bucket: string, key: string): Promise<void> {
  try {
    await s3.send(new DeleteObjectCommand({ Bucket: bucket, Key: key }));
  } catch (error) {
    throw namedStorageError(error, `s3://${bucket}/${key}`);
  }
}
