/** Finds the captures of a replay, copies captures in S3 or a pipe to the local disk, and unpacks gzip files. */

import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, open, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative, resolve, sep } from 'node:path';
import { pipeline as compose } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { filesUnder } from '../../captures/files/capture-objects.ts';
import { LABELS_FOLDER } from '../../captures/files/capture-path.ts';
import { insteadOf } from '../../captures/files/other-files.ts';
import type { Storage } from '../../core/aws/storage.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import type { CaptureWindow, SourceFile } from './types.ts';

/** Maximum number of concurrent copies. */
const COPIES = 8;

/** Hour folders of S3 outside the window are not read. */
interface OpenSourceOptions extends CaptureWindow {
  /** Called only for a source in S3. */
  storage: () => Promise<Storage>;
  signal?: AbortSignal;
}

export interface Disposable {
  /** Deletes the copies. */
  dispose(): Promise<void>;
}

type OpenedSource = Disposable & { files: SourceFile[] };

export function parseS3Location(location: string) {
  const match = /^s3:\/\/([^/]+)\/?(.*)$/s.exec(location);
  return match ? { bucket: match[1] ?? '', key: match[2] ?? '' } : undefined;
}

type S3Location = NonNullable<ReturnType<typeof parseS3Location>>;

/**
 * Opens the captures of a replay.
 *
 * @param location a capture file or a pipe, a directory (all capture files below it), or `s3://bucket/prefix`
 * @throws PermanentError `SourceMissing`, `NoCaptureFiles`, and the errors of the storage
 *
 * @example
 *     const source = await openSource('s3://my-captures/my-endpoint/', { storage: openStorage });
 */
export async function openSource(location: string, options: OpenSourceOptions): Promise<OpenedSource> {
  const s3 = parseS3Location(location);
  if (!s3) {
    const facts = await stat(location).catch(() => undefined);
    if (facts && !facts.isFile() && !facts.isDirectory()) return copyFromPipe(location, options);
    return unpacked(await localFiles(location), options);
  }
  return copyFromS3(await options.storage(), s3, options);
}

/** Replaces compressed files by unpacked copies, since records are read by their place. */
async function unpacked(files: SourceFile[], { signal }: OpenSourceOptions): Promise<OpenedSource> {
  const packed = new Set<SourceFile>();
  for (const file of files) {
    // Errors of reading are left to the file's reader.
    const opened = await openCapture(file).catch(() => undefined);
    opened?.close();
    if (opened?.isGzip) packed.add(file);
  }
  if (packed.size === 0) return { files, dispose: async () => {} };
  return inCopies(async (directory) => {
    const found: SourceFile[] = [];
    for (const [i, file] of files.entries()) {
      const path = join(directory, `${i}.jsonl`);
      if (packed.has(file)) await unpack(file.path, path, signal);
      found.push(packed.has(file) ? { ...file, path, size: (await stat(path)).size } : file);
    }
    return { files: found };
  });
}

/**
 * Makes a temporary directory for copies, and deletes it if a copy fails. @returns the result of `copy`, with a
 * function that deletes the copies
 */
export async function inCopies<T>(copy: (directory: string) => Promise<T>): Promise<T & Disposable> {
  const directory = await mkdtemp(join(tmpdir(), 'replay-'));
  const dispose = (): Promise<void> => rm(directory, { recursive: true, force: true });
  try {
    return { ...(await copy(directory)), dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Copies a pipe to a file, since records are read by their place. */
const copyFromPipe = (location: string, { signal }: OpenSourceOptions): Promise<OpenedSource> =>
  inCopies(async (directory) => {
    const path = join(directory, 'pipe.jsonl');
    await pipeline(createReadStream(location), createWriteStream(path), { signal });
    return { files: [{ path, name: location, size: (await stat(path)).size }] };
  });

const copyFromS3 = (storage: Storage, { bucket, key }: S3Location, options: OpenSourceOptions): Promise<OpenedSource> =>
  inCopies(async (directory) => {
    const { signal } = options;
    const files: SourceFile[] = [];
    const scope = { bucket, prefix: '' };
    const place = { bucket, prefix: key };
    await forEachConcurrently(COPIES, filesUnder(storage, scope, place, options), async (object) => {
      signal?.throwIfAborted();
      const path = join(directory, `${files.length}.jsonl`);
      files.push({ path, name: object.key, bucket: object.bucket, size: object.size });
      await pipeline(await storage.read(object, undefined, signal), createWriteStream(path), { signal });
    });
    if (files.length > 0) return { files };
    throw new PermanentError('NoCaptureFiles', 'No capture files exist at that place and time', {
      got: `s3://${bucket}/${key}`,
      expected: 'objects that end with .jsonl',
    });
  });

// ----------------------------------------------------------------------------------------- files of the local disk

const CAPTURE_SUFFIXES = ['.jsonl', '.jsonl.gz'];

/** Describes capture files, for a user who gave another file. */
export const CAPTURE_FILES =
  'files of Data Capture: JSON lines, named *.jsonl or *.jsonl.gz, with an object with captureData on each line';

/** @param root the folder that a person names */
const isBesideLabels = (root: string, path: string): boolean => relative(root, path).split(sep)[0] !== LABELS_FOLDER;

const byName = (a: SourceFile, b: SourceFile): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);

/**
 * Lists the capture files of a path: the file itself, or all `*.jsonl` and `*.jsonl.gz` below a directory but not in its `labels`,
 * sorted by path.
 *
 * @throws PermanentError `SourceMissing`, `NoCaptureFiles`
 */
export async function localFiles(path: string): Promise<SourceFile[]> {
  let facts: Awaited<ReturnType<typeof stat>>;
  try {
    facts = await stat(path);
  } catch (error) {
    const expected = 'a capture file, a directory with *.jsonl files, or s3://bucket/prefix';
    throw new PermanentError('SourceMissing', 'No captures exist at that path', { got: path, expected }, error);
  }
  let instead = insteadOf(resolve(path));
  if (!facts.isDirectory() && instead === undefined) return [{ path, name: path, size: facts.size }];
  const entries = facts.isDirectory() ? await readdir(path, { recursive: true, withFileTypes: true }) : [];
  const files: SourceFile[] = [];
  for (const entry of entries) {
    const other = insteadOf(resolve(entry.parentPath, entry.name));
    instead ??= other;
    if (other !== undefined) continue;
    if (!CAPTURE_SUFFIXES.some((ending) => entry.name.endsWith(ending))) continue;
    const file = join(entry.parentPath, entry.name);
    if (!isBesideLabels(path, file)) continue;
    // Links are followed. A broken link is reported when the file is read.
    const target = await stat(file).catch(() => undefined);
    if (!target?.isDirectory()) files.push({ path: file, name: file, size: target?.size ?? 0 });
  }
  if (files.length === 0) {
    throw new PermanentError('NoCaptureFiles', 'There are no capture files', {
      got: path,
      expected: instead ?? `files that end with ${CAPTURE_SUFFIXES.join(' or ')}, at any depth`,
    });
  }
  return files.sort(byName);
}

// ------------------------------------------------------------------------------------------------------------ gzip

const GZIP_MARK = Buffer.from([0x1f, 0x8b]);
/** Bytes of one read. */
const READ_BYTES = 1024 * 1024;

/**
 * Opens a file. Its content decides whether it is gzip, which is unpacked piece by piece.
 *
 * @throws PermanentError `CaptureUnreadable`, from the stream too
 */
export async function openCapture({ path, name }: Pick<SourceFile, 'path' | 'name'>) {
  try {
    const file = await open(path);
    const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0);
    const isGzip = buffer.equals(GZIP_MARK);
    const pieces = file.createReadStream({ start: 0, highWaterMark: READ_BYTES });
    // Errors of the parts end the whole stream, and so reach its reader.
    const whole = isGzip ? compose(pieces, createGunzip({ chunkSize: READ_BYTES }), () => {}) : pieces;
    return { isGzip, stream: named(whole, name), close: () => void pieces.destroy() };
  } catch (error) {
    throw unreadable(name, error);
  }
}

async function* named(stream: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<Uint8Array> {
  try {
    yield* stream;
  } catch (error) {
    throw unreadable(name, error);
  }
}

function unreadable(name: string, error: unknown): PermanentError {
  const { code = '', message } = error as NodeJS.ErrnoException;
  const got = code.startsWith('Z_') ? `damaged gzip: ${message}` : code || message;
  return new PermanentError('CaptureUnreadable', 'The file cannot be read', { got, where: name }, error);
}

/** Unpacks a file to another file. @throws PermanentError `CaptureUnreadable` if it is damaged */
export async function unpack(path: string, to: string, signal?: AbortSignal): Promise<void> {
  const { stream } = await openCapture({ path, name: path });
  await pipeline(stream, createWriteStream(to), { signal });
}
