/**
 * Finds a user's capture files on disk, each with its key in the capture bucket, and brings label files to where the
 * stack reads them.
 */
import { createHash, hash } from 'node:crypto';
import { createReadStream, existsSync, mkdtempSync, realpathSync, rmSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, relative, resolve, sep } from 'node:path';
import { createInterface } from 'node:readline';
import { CopyObjectCommand } from '@aws-sdk/client-s3';
import type { Storage } from '../../src/core/aws/storage.ts';
import { namedStorageError } from '../../src/core/aws/storage-errors.ts';
import { putFile } from '../../src/core/aws/uploads.ts';
import type { TruthInput } from '../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { DEFAULT_MAX_LINE_BYTES } from '../../src/core/values/line-bound.ts';
import { isLabelFile } from '../../src/ground-truth/labels/read-labels.ts';
import { CAPTURE_FILES, isBesideLabels, unpack } from '../../src/replay/source/open-source.ts';

export interface CaptureFile {
  /** Absolute path; of a compressed file, that of its unpacked copy. */
  path: string;
  /** Key in the capture bucket: `<endpoint>/<variant>/yyyy/mm/dd/hh/<file>.jsonl`. */
  key: string;
  bytes: number;
  /** The endpoint in its path, if that is in SageMaker's layout. */
  captured?: string | undefined;
}

/** The files of one endpoint. A stack watches one endpoint. */
export interface EndpointCaptures {
  endpoint: string;
  files: CaptureFile[];
}

/** The endpoint of files outside SageMaker's layout, unless the user names it. */
const DEFAULT_ENDPOINT = 'my-endpoint';

/** SageMaker's name for an unnamed variant. */
const DEFAULT_VARIANT = 'AllTraffic';

const SUFFIX = '.jsonl';
const PACKED = '.gz';

const isNamedAsCapture = (path: string): boolean => path.endsWith(SUFFIX) || path.endsWith(SUFFIX + PACKED);

/** Lines that are searched for a time, or for a capture. A record's time is at its end, so complete lines are read. */
const LINES_READ = 20;

/** The end of a path in Data Capture's layout: endpoint, variant, year, month, day, hour, file. */
const LAYOUT = /([^/]+)\/([^/]+)\/\d{4}\/(?:0[1-9]|1[0-2])\/(?:0[1-9]|[12]\d|3[01])\/(?:[01]\d|2[0-3])\/[^/]+\.jsonl$/;

/**
 * Returns the capture files at a path, grouped by endpoint, each with its key. SageMaker's layout is kept, wherever in
 * the path it begins. Any other file goes under `<endpoint>/AllTraffic/` and the hour of its first record.
 * Compressed files are unpacked, since a stack reads none.
 *
 * @param path a `.jsonl` or `.jsonl.gz` file, or a folder with such files at any depth. Those in its folder `labels` are no captures.
 * @param endpoint the endpoint of all files, instead of the one in their paths
 * @throws PermanentError `SourceMissing`, `NoCaptureFiles`
 */
export async function findCaptures(path: string, endpoint?: string): Promise<EndpointCaptures[]> {
  if (!existsSync(path)) {
    const facts = { got: resolve(path), expected: `a ${SUFFIX} file, or a folder with such files` };
    throw new PermanentError('SourceMissing', 'The captures were not found', facts);
  }
  const root = realpathSync(path);
  const stats = statSync(root);
  const isCapture = (path: string): boolean => isNamedAsCapture(path) && isBesideLabels(root, path);
  const paths = stats.isDirectory() ? await filesBelow(root, isCapture) : isNamedAsCapture(root) ? [root] : [];
  if (paths.length === 0) {
    const why = stats.isDirectory() ? 'contains no file that ends' : 'does not end';
    const facts = { got: `${root} ${why} in ${SUFFIX}`, expected: CAPTURE_FILES };
    throw new PermanentError('NoCaptureFiles', 'No capture files', facts);
  }
  const groups = new Map<string, EndpointCaptures>();
  const taken = new Set<string>();
  for (const file of paths) {
    const plain = file.endsWith(PACKED) ? await unpackedCopy(file) : file;
    const place = await placeInBucket(file, plain, stats.isDirectory() ? root : join(root, '..'), endpoint);
    const key = unlessTaken(place.key, taken);
    const group = groups.get(place.endpoint) ?? { endpoint: place.endpoint, files: [] };
    groups.set(place.endpoint, group);
    group.files.push({ path: plain, key, bytes: statSync(plain).size, captured: place.captured });
  }
  return [...groups.values()];
}

let copies: string | undefined;

/** Unpacks a file to a folder that is deleted when the process ends. @throws PermanentError `CaptureUnreadable` */
async function unpackedCopy(file: string): Promise<string> {
  if (copies === undefined) {
    const directory = mkdtempSync(join(tmpdir(), 'captures-'));
    copies = directory;
    process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  }
  const copy = join(mkdtempSync(join(copies, 'file-')), basename(file, PACKED));
  await unpack(file, copy);
  return copy;
}

/** Returns the files of a folder, at any depth, sorted by path. Links are followed. @param isMeant of a path */
export async function filesBelow(root: string, isMeant: (path: string) => boolean): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => isMeant(path) && statSync(path, { throwIfNoEntry: false })?.isFile())
    .sort();
}

/** @param plain the file itself, or its unpacked copy */
async function placeInBucket(
  file: string,
  plain: string,
  root: string,
  endpoint?: string,
): Promise<{ endpoint: string; key: string; captured?: string }> {
  const named = file.endsWith(PACKED) ? file.slice(0, -PACKED.length) : file;
  const layout = LAYOUT.exec(named.split(sep).join('/'));
  if (layout) {
    const [key, found] = layout as unknown as [string, string];
    return { endpoint: endpoint ?? found, key: (endpoint ?? found) + key.slice(found.length), captured: found };
  }
  const owner = endpoint ?? DEFAULT_ENDPOINT;
  const hour = await hourOfFirstRecord(plain);
  const name = relative(root, named).split(sep).join('-');
  return { endpoint: owner, key: `${owner}/${DEFAULT_VARIANT}/${hourPath(hour)}/${name || basename(named)}` };
}

/** Numbers a key that another file already has: files of different folders may have the same name. */
function unlessTaken(key: string, taken: Set<string>): string {
  let free = key;
  for (let n = 2; taken.has(free); n += 1) free = `${key.slice(0, -SUFFIX.length)}-${n}${SUFFIX}`;
  taken.add(free);
  return free;
}

const hourPath = (time: Date): string => time.toISOString().slice(0, 13).replace(/[-T]/g, '/');

/** Yields the first lines of a file. */
export async function* firstLines(file: string): AsyncGenerator<string> {
  const stream = createReadStream(file, { end: DEFAULT_MAX_LINE_BYTES });
  const lines = createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY });
  try {
    let read = 0;
    for await (const line of lines) {
      yield line;
      read += 1;
      if (read >= LINES_READ) return;
    }
  } finally {
    lines.close();
    stream.destroy();
  }
}

/** Returns the time of the first record that has one, else the file's modification time. */
async function hourOfFirstRecord(file: string): Promise<Date> {
  for await (const line of firstLines(file)) {
    const time = inferenceTime(line);
    if (time) return time;
  }
  return statSync(file).mtime;
}

function inferenceTime(line: string): Date | undefined {
  try {
    const record = JSON.parse(line) as { eventMetadata?: { inferenceTime?: unknown } } | null;
    const captured = record?.eventMetadata?.inferenceTime;
    const time = typeof captured === 'string' ? new Date(captured) : undefined;
    return time && !Number.isNaN(time.getTime()) ? time : undefined;
  } catch {
    // Not JSON: the pipeline will quarantine it, with the reason.
    return undefined;
  }
}

/** A label file, wherever it is. */
interface LabelFile {
  /** Below what was asked for. */
  name: string;
  bytes: number;
  /** Of the content. */
  digest: string;
  copyTo(key: string): Promise<void>;
}

export const LABEL_FILES = 'files that end in .jsonl, .json or .csv, or the same with .gz';
const S3 = /^s3:\/\/([^/]+)\/?(.*)$/;
const DIGEST_CHARS = 16;

/**
 * Copies label files to the work bucket, and returns the input for them. Files that are there already are left: their labels keep
 * the time at which they first came. What is under the prefix that the stack watches is read in place.
 *
 * @param source a file or a folder of this machine, or `s3://bucket/key`, or `s3://bucket/prefix/`
 * @param watched the place of `GROUND_TRUTH_S3_PREFIX`, `s3://bucket/prefix/`
 * @throws PermanentError `LabelsMissing`; of the storage
 */
export async function placeLabels(
  storage: Storage,
  workBucket: string,
  source: string,
  watched?: string,
): Promise<{ input: TruthInput; files: number; bytes: number }> {
  const [, bucket, key = ''] = S3.exec(source) ?? [];
  const files = await (bucket === undefined
    ? filesOfMachine(storage, workBucket, source)
    : filesOfBucket(storage, workBucket, { bucket, key }));
  if (files.length === 0) throw missing(source, `no file that ends in .jsonl, .json or .csv`);
  const placed = { files: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) };
  const [only] = files.length === 1 ? files : [];
  if (bucket !== undefined && watched !== undefined && source.startsWith(watched)) {
    return { ...placed, input: isFolder(key) ? { bucket, prefix: key } : { bucket, key } };
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

const isFolder = (key: string): boolean => key === '' || key.endsWith('/');

const digestOf = (value: unknown): string => hash('sha256', JSON.stringify(value)).slice(0, DIGEST_CHARS);

const missing = (source: string, why: string): PermanentError =>
  new PermanentError('LabelsMissing', 'There are no label files', {
    got: `${source}: ${why}`,
    expected: `a label file or a folder with ${LABEL_FILES}; s3://bucket/key, or s3://bucket/prefix/`,
  });

async function filesOfMachine(storage: Storage, workBucket: string, source: string): Promise<LabelFile[]> {
  if (!existsSync(source)) throw missing(source, 'it does not exist');
  const isDirectory = statSync(source).isDirectory();
  if (!isDirectory && !isLabelFile(source)) throw missing(source, 'its name does not say what it is');
  const files: LabelFile[] = [];
  for (const path of isDirectory ? await filesBelow(source, isLabelFile) : [source]) {
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

async function filesOfBucket(
  storage: Storage,
  workBucket: string,
  { bucket, key }: { bucket: string; key: string },
): Promise<LabelFile[]> {
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
