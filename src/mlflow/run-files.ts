/** Stores files with an MLflow run. */
import type { S3Client } from '@aws-sdk/client-s3';
import { withRetries } from '../core/process/retry.ts';
import { artifactFolder, putToS3 } from './artifact-store.ts';
import type { MlflowRest } from './rest.ts';
import type { MlflowRun } from './runs.ts';

/** Larger files would take minutes and much of the server's memory. They are left out, with a message. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;

const CONTENT_TYPES: Record<string, string> = {
  html: 'text/html',
  json: 'application/json',
  jsonl: 'application/jsonl',
  csv: 'text/csv',
};

/** A file of a result set, local or in S3. */
export interface ResultFile {
  name: string;
  size: number;
  read(): Promise<Buffer>;
}

/**
 * Puts the files into the run's artifacts. Putting a file again has no effect.
 *
 * @returns the names of the files that were left out, each with the reason
 *
 * @example
 *     const leftOut = await putRunFiles(mlflow.rest, run, files, async () => new S3Client({}));
 */
export async function putRunFiles(
  rest: MlflowRest,
  run: MlflowRun,
  files: readonly ResultFile[],
  s3: () => Promise<S3Client>,
): Promise<string[]> {
  const leftOut: string[] = [];
  const folder = artifactFolder(run.artifactUri);
  for (const { name, size, read } of files) {
    const contentType = CONTENT_TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
    if (size > MAX_FILE_BYTES) leftOut.push(`${name} (${size} bytes; at most ${MAX_FILE_BYTES})`);
    else if (folder === undefined) {
      leftOut.push(`${name} (this server keeps artifacts at ${run.artifactUri}, which is not supported)`);
    } else if ('path' in folder) {
      const bytes = await read();
      const path = `${folder.path}${encodeURIComponent(name)}`;
      await withRetries(rest.retry, () => rest.bytes({ method: 'PUT', path, bytes, contentType }));
    } else {
      await putToS3(await s3(), folder.bucket, `${folder.prefix}${name}`, await read(), contentType);
    }
  }
  return leftOut;
}
