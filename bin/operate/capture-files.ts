/** Finds the user's capture files on disk and derives the key of each in the capture bucket. */

import { existsSync, mkdtempSync, realpathSync, rmSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, relative, sep } from 'node:path';
import { capturePathOf, formatHour } from '../../src/captures/files/capture-path.ts';
import { parseInferenceTime } from '../../src/captures/record/inference-time.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { scanFile } from '../../src/replay/source/lines.ts';
import { CAPTURE_FILES, localFiles, unpack } from '../../src/replay/source/open-source.ts';

export interface CaptureFile {
  /** Absolute path. For a compressed file, the path of its unpacked copy. */
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

export const SUFFIX = '.jsonl';
const PACKED = '.gz';

const isNamedAsCapture = (path: string): boolean => path.endsWith(SUFFIX) || path.endsWith(SUFFIX + PACKED);

/** Lines that are searched for a time, or for a capture. A record's time is at its end, so complete lines are read. */
const LINES_READ = 20;

/**
 * Returns the capture files at a path, grouped by endpoint, each with its key. SageMaker's layout is kept, wherever in
 * the path it begins. Any other file goes under `<endpoint>/AllTraffic/` and the hour of its first record. Compressed
 * files are unpacked, because a stack cannot read them.
 *
 * @param path a `.jsonl` or `.jsonl.gz` file, or a folder with such files at any depth. Files in its folder `labels`
 *   are not captures.
 * @param endpoint the endpoint of all files, instead of the endpoint in their paths
 * @throws PermanentError `SourceMissing`, `NoCaptureFiles`
 *
 * @example
 *     for (const { endpoint, files } of await findCaptures('captures/')) show(endpoint, files.length);
 */
export async function findCaptures(path: string, endpoint?: string): Promise<EndpointCaptures[]> {
  const root = existsSync(path) ? realpathSync(path) : path;
  const paths = (await localFiles(root)).map((file) => file.path);
  const odd = paths.find((file) => !isNamedAsCapture(file));
  if (odd !== undefined) {
    const facts = { got: `${odd} does not end in ${SUFFIX}`, expected: CAPTURE_FILES };
    throw new PermanentError('NoCaptureFiles', 'No capture files', facts);
  }
  const folder = statSync(root).isDirectory() ? root : join(root, '..');
  const groups = new Map<string, EndpointCaptures>();
  const taken = new Set<string>();
  for (const file of paths) {
    const plain = file.endsWith(PACKED) ? await unpackedCopy(file) : file;
    const place = await placeInBucket(file, plain, folder, endpoint);
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
async function placeInBucket(file: string, plain: string, root: string, endpoint?: string) {
  const named = file.endsWith(PACKED) ? file.slice(0, -PACKED.length) : file;
  const path = named.split(sep).join('/');
  const { endpoint: captured } = capturePathOf(path);
  const owner = endpoint ?? captured ?? DEFAULT_ENDPOINT;
  // The variant, four parts of the hour, and the file.
  if (captured) return { endpoint: owner, key: [owner, ...path.split('/').slice(-6)].join('/'), captured };
  const hour = await hourOfFirstRecord(plain);
  const name = relative(root, named).split(sep).join('-');
  return { endpoint: owner, key: `${owner}/${DEFAULT_VARIANT}/${hour}/${name || basename(named)}` };
}

/** Numbers a key that another file already has: files of different folders may have the same name. */
function unlessTaken(key: string, taken: Set<string>): string {
  let free = key;
  for (let n = 2; taken.has(free); n += 1) free = `${key.slice(0, -SUFFIX.length)}-${n}${SUFFIX}`;
  taken.add(free);
  return free;
}

/** Yields the first lines of a file that are not blank. */
export async function* firstLines(file: string): AsyncGenerator<string> {
  let read = 0;
  for await (const { bytes = '' } of scanFile(file)) {
    yield bytes.toString();
    read += 1;
    if (read >= LINES_READ) return;
  }
}

/** Returns the hour of the first record with a time, else the hour of the file's last change, in the format of keys. */
async function hourOfFirstRecord(file: string): Promise<string> {
  for await (const line of firstLines(file)) {
    const ms = parseInferenceTime(INFERENCE_TIME.exec(line)?.[1]);
    if (ms !== undefined) return formatHour(ms);
  }
  return formatHour(statSync(file).mtimeMs);
}

/** In a captured body, the quotes of the name are escaped, so it does not match. */
const INFERENCE_TIME = /"inferenceTime"\s*:\s*"([^"]{1,64})"/;
