/** The input for `process`: captures in S3, or files on this machine, which are uploaded to the capture bucket. */

import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { basename } from 'node:path';
import { backfillObjects, type CaptureScope, capturedObject } from '../../src/captures/files/capture-objects.ts';
import { insteadOf } from '../../src/captures/files/other-files.ts';
import type { Storage } from '../../src/core/aws/storage.ts';
import type { BackfillInput, ObjectInput } from '../../src/core/contract/input.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { nearest } from '../../src/core/errors/nearest.ts';
import { parseS3Location } from '../../src/replay/source/open-source.ts';
import { type CaptureFile, findCaptures, firstLines, SUFFIX } from './capture-files.ts';
import { inputText } from './executions.ts';

/** The endpoint of the stack, and the location of its captures. */
export interface StackCaptures extends CaptureScope {
  endpoint: string;
}

/** The size of an input, from a listing. */
interface Measured {
  files: number;
  bytes: number;
  /** There are more: the listing was cut off. */
  more: boolean;
}

/** Files that are counted before a run starts. */
const MAX_COUNTED = 10_000;
/** Names among which the nearest one is looked for. */
const MAX_COMPARED = 1_000;

/**
 * Resolves the user's input, and checks that it exists.
 *
 * @param text an S3 address, a key or a prefix of the capture bucket, or a path on this machine; by default everything
 * @throws PermanentError `AmbiguousSource`, `OutsideCaptureScope`, `CaptureMissing`, `NoCaptures`
 */
export async function captureSource(
  storage: Storage,
  captures: StackCaptures,
  text: string | undefined,
  range: { from?: string | undefined; to?: string | undefined },
): Promise<{ local: string } | { input: ObjectInput | BackfillInput; measured: Measured }> {
  const isTimed = range.from !== undefined || range.to !== undefined;
  const inS3 = text === undefined ? { ...captures, key: captures.prefix } : parseS3Location(text);
  if (text !== undefined && inS3 === undefined && existsSync(text)) {
    await assertNotInBucket(storage, captures, text);
    if (isTimed) throw notForOneFile(text);
    return { local: text };
  }
  if (text !== undefined && inS3 === undefined && /^[./~]/.test(text)) {
    const facts = { got: text, expected: 'a capture file, a folder with *.jsonl files, or s3://bucket/prefix' };
    throw new PermanentError('SourceMissing', 'There is no such file or folder on this machine', facts);
  }
  const { bucket, key } = inS3 ?? { bucket: captures.bucket, key: text ?? '' };
  if (key.endsWith(SUFFIX)) {
    if (isTimed) throw notForOneFile(text ?? key);
    const facts = await existing(storage, captures, bucket, key);
    const input = { detail: { bucket: { name: bucket }, object: { key } } };
    return { input, measured: { files: 1, bytes: facts.size, more: false } };
  }
  const input = { bucket, prefix: key, ...range };
  return { input, measured: await measure(storage, captures, input) };
}

function notForOneFile(got: string): PermanentError {
  const expected = 'a prefix such as my-endpoint/AllTraffic/, or no source for all captures of the stack';
  return new PermanentError('InvalidTime', '--from and --to are for captures under a prefix', { got, expected });
}

/** A path may also be the beginning of keys. @throws PermanentError `AmbiguousSource` */
async function assertNotInBucket(storage: Storage, { bucket }: CaptureScope, text: string): Promise<void> {
  if (/^[./~]/.test(text)) return;
  for await (const { key } of storage.list(bucket, text)) {
    throw new PermanentError('AmbiguousSource', 'Both this machine and the capture bucket have that', {
      got: text,
      expected: `./${text} for the files on this machine, or s3://${bucket}/${text} for the captures (such as ${key})`,
    });
  }
}

/** Returns the facts of a capture file. The error for a missing one names the nearest of its folder. */
async function existing(storage: Storage, scope: CaptureScope, bucket: string, key: string) {
  try {
    return await capturedObject(storage, scope, bucket, key);
  } catch (error) {
    if ((error as Error).name !== 'CaptureMissing') throw error;
    const folder = key.slice(0, key.length - basename(key).length);
    const names: string[] = [];
    for await (const { key: other } of storage.list(bucket, folder)) {
      if (names.push(other.slice(folder.length)) >= MAX_COMPARED) break;
    }
    const alike = nearest(basename(key), names) ?? names[0];
    const near = alike === undefined ? '; its folder is empty' : `, such as ${folder}${alike}`;
    const expected = `the raw key of an existing object (not URL-encoded)${near}`;
    throw new PermanentError('CaptureMissing', 'The capture file does not exist', {
      got: `s3://${bucket}/${key}`,
      expected,
    });
  }
}

async function measure(storage: Storage, scope: CaptureScope, input: BackfillInput): Promise<Measured> {
  const ms = (instant: string | undefined) => (instant === undefined ? undefined : Date.parse(instant));
  const window = { fromMs: ms(input.from), toMs: ms(input.to) };
  const measured: Measured = { files: 0, bytes: 0, more: false };
  for await (const { size } of backfillObjects(storage, scope, input, window)) {
    if (measured.files === MAX_COUNTED) return { ...measured, more: true };
    measured.files += 1;
    measured.bytes += size;
  }
  if (measured.files > 0) return measured;
  const { bucket } = scope;
  let near = '; the stack has none yet';
  for await (const { key } of backfillObjects(storage, scope, { bucket, prefix: '' }, undefined)) {
    near = `, such as s3://${bucket}/${key}`;
    break;
  }
  const expected = insteadOf(input.prefix) ?? `capture files${near}`;
  throw new PermanentError('NoCaptures', 'There are no captures', { got: inputText(input), expected });
}

// ------------------------------------------------------------------------------------------- files of this machine
// In the capture bucket, the stack's rule starts runs for them.

export interface UploadPlan {
  /** Files to put. The rule starts runs for them. */
  fresh: CaptureFile[];
  /** Files that the bucket has already, with the same content. */
  present: CaptureFile[];
}

/**
 * Finds the files, and which of them the bucket already has. A file gets the key that SageMaker would give it, under
 * the stack's prefix.
 *
 * @throws PermanentError `OtherEndpoint`, `NotACapture`, `CaptureInTheWay`; Error if the path has no capture files
 */
export async function planUpload(storage: Storage, captures: StackCaptures, path: string): Promise<UploadPlan> {
  const groups = await findCaptures(path, captures.endpoint);
  const plan: UploadPlan = { fresh: [], present: [] };
  for (const file of groups.flatMap(({ files }) => files)) {
    if (file.captured !== undefined && file.captured !== captures.endpoint) {
      throw new PermanentError('OtherEndpoint', 'The file is of another endpoint than the stack', {
        got: file.captured,
        expected: `captures of ${captures.endpoint}, or a file outside SageMaker's folders`,
        where: file.path,
      });
    }
    await assertCapture(file.path);
    const placed = { ...file, key: keyUnder(captures, file.key) };
    const present = await storage.head(captures.bucket, placed.key);
    if (present === undefined) plan.fresh.push(placed);
    else if (present.size === file.bytes && (await isSame(storage, file.path, present))) plan.present.push(placed);
    else {
      throw new PermanentError('CaptureInTheWay', 'The bucket has another file of that name', {
        got: `${file.path} of ${file.bytes} bytes`,
        expected: 'a new name, or the same content: captures are never overwritten',
        where: `s3://${captures.bucket}/${placed.key}`,
      });
    }
  }
  return plan;
}

/** The stack's prefix usually ends with the endpoint, with which the key begins. */
const keyUnder = ({ prefix, endpoint }: StackCaptures, key: string): string =>
  prefix.endsWith(`${endpoint}/`) ? `${prefix}${key.slice(endpoint.length + 1)}` : `${prefix}${key}`;

/**
 * @throws PermanentError `NotACapture` if none of the first lines looks like a capture: all lines would be quarantined
 */
async function assertCapture(path: string): Promise<void> {
  let read = 0;
  for await (const line of firstLines(path)) {
    if (line.includes('captureData')) return;
    read += 1;
  }
  const got = read === 0 ? 'an empty file' : `no "captureData" in its first ${read} lines`;
  const expected = "Data Capture's JSON lines, uncompressed";
  throw new PermanentError('NotACapture', 'The file has no captures', { got, expected, where: path });
}

type Stored = NonNullable<Awaited<ReturnType<Storage['head']>>>;

/** Compares contents. Most ETags are the MD5 of the content, except for long uploads and objects under a KMS key. */
async function isSame(storage: Storage, path: string, object: Stored): Promise<boolean> {
  const local = createHash('md5');
  for await (const piece of createReadStream(path)) local.update(piece as Buffer);
  const digest = local.digest('hex');
  if (digest === object.etag) return true;
  const remote = createHash('md5');
  for await (const piece of await storage.read(object)) remote.update(piece);
  return digest === remote.digest('hex');
}
