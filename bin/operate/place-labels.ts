/** Brings label files to where the stack reads them: files of this machine, and objects of any bucket. */

import { createHash, hash } from 'node:crypto';
import { createReadStream, existsSync, statSync } from 'node:fs';
import { basename, relative, sep } from 'node:path';
import { CopyObjectCommand } from '@aws-sdk/client-s3';
import type { Work } from '../../src/core/aws/storage.ts';
import { namedStorageError } from '../../src/core/aws/storage-errors.ts';
import { putFile } from '../../src/core/aws/uploads.ts';
import type { TruthInput } from '../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { isLabelFile } from '../../src/ground-truth/labels/read-labels.ts';
import { parseS3Location } from '../../src/replay/source/open-source.ts';
import { filesBelow } from './capture-files.ts';

/** A label file in any location. */
interface LabelFile {
  /** Name relative to the requested path. */
  name: string;
  bytes: number;
  /** Digest of the content. */
  digest: string;
  copyTo(key: string): Promise<void>;
}

export const LABEL_FILES = 'files that end in .jsonl, .json or .csv, or the same with .gz';
const DIGEST_CHARS = 16;

/** The input of a run, and its size. */
type Placed = { input: TruthInput; files: number; bytes: number };

/**
 * Copies label files to the work bucket, and returns the input for them. Files that already exist there are not copied,
 * so that their labels keep the time of their first arrival. Files under the prefix that the stack watches are read in
 * place.
 *
 * @param source a file or a folder of this machine, or `s3://bucket/key`, or `s3://bucket/prefix/`
 * @param watched location in `GROUND_TRUTH_S3_PREFIX`, `s3://bucket/prefix/`
 * @throws PermanentError `LabelsMissing`; the errors of the storage
 */
export async function placeLabels(work: Work, source: string, watched?: string): Promise<Placed> {
  const { storage, workBucket } = work;
  const inS3 = parseS3Location(source);
  const files = await (inS3 === undefined ? filesOfMachine(work, source) : filesOfBucket(work, inS3));
  if (files.length === 0) throw missing(source, `no file that ends in .jsonl, .json or .csv`);
  const placed = { files: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) };
  const [only] = files.length === 1 ? files : [];
  if (inS3 !== undefined && watched !== undefined && source.startsWith(watched)) {
    return { ...placed, input: isFolder(inS3.key) ? { bucket: inS3.bucket, prefix: inS3.key } : inS3 };
  }
  // Each set of files has a folder of its own.
  const folder = truthKeys.upload(`${digestOf(files.map(({ name, digest }) => [name, digest]))}/`);
  for (const { name, bytes, copyTo } of files) {
    const present = await storage.head(workBucket, folder + name);
    if (present?.size !== bytes) await copyTo(folder + name);
  }
  const input = only === undefined ? { prefix: folder } : { key: folder + only.name };
  return { ...placed, input: { bucket: workBucket, ...input } };
}

/** Returns the label files of a folder, at any depth. */
export const labelFilesIn = (folder: string): Promise<string[]> => filesBelow(folder, isLabelFile);

const isFolder = (key: string): boolean => key === '' || key.endsWith('/');

const digestOf = (value: unknown): string => hash('sha256', JSON.stringify(value)).slice(0, DIGEST_CHARS);

function missing(source: string, why: string): PermanentError {
  const expected = `a label file or a folder with ${LABEL_FILES}; s3://bucket/key, or s3://bucket/prefix/`;
  return new PermanentError('LabelsMissing', 'There are no label files', { got: `${source}: ${why}`, expected });
}

async function filesOfMachine({ storage, workBucket }: Work, source: string): Promise<LabelFile[]> {
  if (!existsSync(source)) throw missing(source, 'it does not exist');
  const isDirectory = statSync(source).isDirectory();
  if (!isDirectory && !isLabelFile(source)) throw missing(source, 'its name does not say what it is');
  const files: LabelFile[] = [];
  for (const path of isDirectory ? await labelFilesIn(source) : [source]) {
    const content = createHash('sha256');
    for await (const piece of createReadStream(path)) content.update(piece as Buffer);
    files.push({
      name: isDirectory ? relative(source, path).split(sep).join('/') : basename(path),
      bytes: statSync(path).size,
      digest: content.digest('hex'),
      copyTo: (key) => putFile(storage, workBucket, key, path, 'application/octet-stream'),
    });
  }
  return files;
}

async function filesOfBucket({ storage, workBucket }: Work, { bucket, key }: { bucket: string; key: string }) {
  const files: LabelFile[] = [];
  const found = isFolder(key) ? storage.list(bucket, key) : [await storage.head(bucket, key)];
  for await (const object of found) {
    if (object === undefined || !isLabelFile(object.key)) continue;
    const from = [bucket, ...object.key.split('/')].map(encodeURIComponent).join('/');
    files.push({
      name: isFolder(key) ? object.key.slice(key.length) : basename(key),
      bytes: object.size,
      digest: object.etag,
      async copyTo(to) {
        try {
          await storage.s3.send(new CopyObjectCommand({ Bucket: workBucket, Key: to, CopySource: from }));
        } catch (error) {
          throw namedStorageError(error, `s3://${bucket}/${object.key}`);
        }
      },
    });
  }
  return files;
}
