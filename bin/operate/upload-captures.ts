/** Puts capture files of this machine into the capture bucket, where the stack's rule starts runs for them. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { Storage } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { type CaptureFile, findCaptures, firstLines } from './capture-files.ts';
import type { StackCaptures } from './capture-source.ts';

export interface UploadPlan {
  /** Files to put. The rule starts runs for them. */
  fresh: CaptureFile[];
  /** Files that the bucket has already, with the same content. */
  present: CaptureFile[];
}

/**
 * Finds the files, and what of them the bucket has. A file gets the key that SageMaker would give it, under the stack's prefix.
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

/** @throws PermanentError `NotACapture` if none of the first lines looks like one: it would all go into quarantine */
async function assertCapture(path: string): Promise<void> {
  let read = 0;
  for await (const line of firstLines(path)) {
    if (line.includes('captureData')) return;
    read += 1;
  }
  throw new PermanentError('NotACapture', 'The file has no captures', {
    got: read === 0 ? 'an empty file' : `no "captureData" in its first ${read} lines`,
    expected: "Data Capture's JSON lines, uncompressed",
    where: path,
  });
}

type Stored = NonNullable<Awaited<ReturnType<Storage['head']>>>;

/** Most ETags are the MD5 of the content; those of long uploads and of objects under a KMS key are not. */
async function isSame(storage: Storage, path: string, object: Stored): Promise<boolean> {
  const local = createHash('md5');
  for await (const piece of createReadStream(path)) local.update(piece as Buffer);
  const digest = local.digest('hex');
  if (digest === object.etag) return true;
  const remote = createHash('md5');
  for await (const piece of await storage.read(object)) remote.update(piece);
  return digest === remote.digest('hex');
}
