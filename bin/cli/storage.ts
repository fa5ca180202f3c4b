/** S3 for the commands that may read from it. The client is loaded when it is first needed. */
import type { Storage } from '../../src/core/aws/storage.ts';

export async function openStorage(): Promise<Storage> {
  const { createS3Client, Storage } = await import('../../src/core/aws/storage.ts');
  return new Storage(createS3Client());
}
