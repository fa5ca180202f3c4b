/** Finds the captures that a replay is made of, and brings those that are in S3 to the local disk. */
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { backfillObjects } from '../../formats/capture-objects.ts';
import { forEachConcurrently } from '../../shared/concurrency.ts';
import { PermanentError } from '../../shared/errors.ts';
import type { ObjectFacts, Storage } from '../../shared/storage.ts';
import { localFiles } from './files.ts';
import type { SourceFile } from './types.ts';

/** Objects that are copied at a time. */
const COPIES = 8;

interface OpenSourceOptions {
  /** Captured times, epoch ms: hour folders of S3 outside them are not read. */
  fromMs?: number;
  toMs?: number;
  /** Called only for a source in S3. */
  storage: () => Promise<Storage>;
  onCopied?(object: ObjectFacts): void;
  signal?: AbortSignal;
}

interface OpenedSource {
  files: SourceFile[];
  /** Deletes what was copied. */
  dispose(): Promise<void>;
}

interface S3Location {
  bucket: string;
  key: string;
}

export function parseS3Location(location: string): S3Location | undefined {
  const match = /^s3:\/\/([^/]+)\/?(.*)$/s.exec(location);
  return match ? { bucket: match[1] ?? '', key: match[2] ?? '' } : undefined;
}

/**
 * @param location a capture file or a pipe, a directory (all `*.jsonl` below it), or `s3://bucket/prefix`
 * @throws PermanentError `SourceMissing`, `NoCaptureFiles`, and those of the storage
 */
export async function openSource(location: string, options: OpenSourceOptions): Promise<OpenedSource> {
  const s3 = parseS3Location(location);
  if (!s3) {
    const facts = await stat(location).catch(() => undefined);
    if (facts && !facts.isFile() && !facts.isDirectory()) return copyFromPipe(location, options);
    return { files: await localFiles(location), dispose: async () => {} };
  }
  return copyFromS3(await options.storage(), s3, options);
}

/** Objects of a prefix, or the one object that is named whole, in the order of their keys. */
async function* s3Objects(
  storage: Storage,
  { bucket, key }: S3Location,
  window: { fromMs?: number; toMs?: number },
): AsyncGenerator<ObjectFacts> {
  if (key.endsWith('.jsonl')) {
    const facts = await storage.head(bucket, key);
    if (facts) yield facts;
    return;
  }
  yield* backfillObjects(storage, { bucket, prefix: '' }, { bucket, prefix: key }, window);
}

/** Records are read by their place in a file, and what comes out of a pipe has none. */
async function copyFromPipe(location: string, { signal }: OpenSourceOptions): Promise<OpenedSource> {
  const directory = await mkdtemp(join(tmpdir(), 'replay-captures-'));
  const dispose = (): Promise<void> => rm(directory, { recursive: true, force: true });
  const path = join(directory, 'pipe.jsonl');
  try {
    await pipeline(createReadStream(location), createWriteStream(path), { signal });
    return { files: [{ path, name: location, size: (await stat(path)).size }], dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function copyFromS3(storage: Storage, location: S3Location, options: OpenSourceOptions): Promise<OpenedSource> {
  const directory = await mkdtemp(join(tmpdir(), 'replay-captures-'));
  const dispose = (): Promise<void> => rm(directory, { recursive: true, force: true });
  const files: SourceFile[] = [];
  try {
    await forEachConcurrently(COPIES, s3Objects(storage, location, options), async (object) => {
      options.signal?.throwIfAborted();
      const path = join(directory, `${files.length}.jsonl`);
      files.push({ path, name: object.key, bucket: object.bucket, size: object.size });
      await copyObject(storage, object, path, options.signal);
      options.onCopied?.(object);
    });
  } catch (error) {
    await dispose();
    throw error;
  }
  if (files.length === 0) {
    await dispose();
    throw new PermanentError('NoCaptureFiles', 'There are no capture files at that place and time', {
      got: `s3://${location.bucket}/${location.key}`,
      expected: 'objects that end with .jsonl',
    });
  }
  return { files, dispose };
}

async function copyObject(
  storage: Storage,
  object: ObjectFacts,
  path: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  await pipeline(await storage.read(object, undefined, signal), createWriteStream(path), { signal });
}
