/** Finds the capture files of a run: one object, or all objects of a prefix within a window of hours. */

import { unquote } from '../../core/aws/object-stream.ts';
import type { ObjectFacts, Storage } from '../../core/aws/storage.ts';
import type { BackfillInput, ListedFile, ObjectInput, RunOptions } from '../../core/contract/input.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { formatHour, HOUR_MS, hourPathOf } from './capture-path.ts';
import { insteadOf } from './other-files.ts';

/** The location of captures that the stack has permission to read, and whose endpoint its traces name. */
export interface CaptureScope {
  bucket: string;
  /** Ends with `/`, or is empty. */
  prefix: string;
  /** Whether a key names a file without captures of the stack: another file that AWS writes, or captures of a judge. */
  excludes?(key: string): boolean;
}

const CAPTURE_SUFFIX = '.jsonl';

/** Errors that S3 reports for one object: its lifecycle may have archived or deleted it, or it was overwritten. */
const OF_ONE_FILE = new Set(['CaptureArchived', 'CaptureMissing', 'CaptureChanged']);

/** Whether an error, named or thrown, concerns only one capture file. */
export const isOfOneFile = (error: unknown): boolean => OF_ONE_FILE.has((error as { name?: string }).name ?? '');

function assertInScope(scope: CaptureScope, bucket: string, key: string, what: string): void {
  if (bucket === scope.bucket && key.startsWith(scope.prefix) && !scope.excludes?.(key)) return;
  throw new PermanentError('OutsideCaptureScope', `This stack does not process this ${what}`, {
    got: `s3://${bucket}/${key}`,
    expected: `a ${what} under s3://${scope.bucket}/${scope.prefix}`,
  });
}

/** Returns the file of an event. */
export const fileOf = ({ detail: { bucket, object } }: ObjectInput): ListedFile => ({
  bucket: bucket.name,
  key: object.key,
  etag: object.etag === undefined ? undefined : unquote(object.etag),
  // An object that is older than the versioning of its bucket. Its version cannot be requested by name.
  versionId: object['version-id'] === 'null' ? undefined : object['version-id'],
});

/** Returns a warning if the file was overwritten after its event, which can happen in a bucket without versioning. */
export function overwrittenSince({ etag }: ListedFile, found: ObjectFacts): string | undefined {
  if (etag === undefined || etag === found.etag) return undefined;
  const where = `s3://${found.bucket}/${found.key}`;
  return `${where} was overwritten after its event (etag ${etag}, now ${found.etag}). The earlier content is lost, unless a run read it before. In a versioned bucket, each run reads the version of its event`;
}

/**
 * Finds a capture file by its key, in the given version or the latest one.
 *
 * @throws PermanentError `NotACaptureFile`, `OutsideCaptureScope`, `CaptureMissing`
 */
export async function capturedObject(
  storage: Storage,
  scope: CaptureScope,
  bucket: string,
  key: string,
  version?: string,
): Promise<ObjectFacts> {
  const instead = insteadOf(key);
  if (instead !== undefined || !key.endsWith(CAPTURE_SUFFIX)) {
    throw new PermanentError('NotACaptureFile', 'The key does not name a capture file', {
      got: key,
      expected: instead ?? `a key that ends with ${CAPTURE_SUFFIX}`,
    });
  }
  assertInScope(scope, bucket, key, 'file');
  const facts = await storage.head(bucket, key, version);
  if (facts === undefined) {
    throw new PermanentError('CaptureMissing', 'The capture file does not exist', {
      where: `s3://${bucket}/${key}${version === undefined ? '' : `, version ${version}`}`,
      expected: 'the raw key of an existing object (not URL-encoded)',
    });
  }
  return facts;
}

/**
 * The file of a record may be in the folder of the hour before or after: captures are flushed late, and a file is named
 * after one of its records. So one more hour on each side is read, and the time of each record decides. Of later files only the
 * overlap of backfills takes care, which docs/operations.md asks for.
 */
const HOUR_MARGIN_MS = HOUR_MS;

/** Characters of `yyyy/mm/dd`. */
const DAY_LENGTH = 10;

/**
 * Yields the capture files of a backfill in the order of S3. Hours outside the window are not listed: the listing jumps over the
 * rest of a day, or to the first hour of the window, which takes two requests a day.
 *
 * @param after the last key of the previous part, exclusive
 *
 * @example
 *     for await (const object of backfillObjects(storage, scope, { bucket, prefix: 'captures/' }, window)) read(object);
 */
export async function* backfillObjects(
  storage: Storage,
  scope: CaptureScope,
  input: BackfillInput,
  window: RunOptions['window'],
  after?: string,
): AsyncGenerator<ObjectFacts> {
  const prefix = input.prefix === '' || input.prefix.endsWith('/') ? input.prefix : `${input.prefix}/`;
  // A wider prefix, such as the root of the bucket, selects everything that the stack may read.
  const listed = scope.prefix.startsWith(prefix) ? scope.prefix : prefix;
  assertInScope(scope, input.bucket, listed, 'prefix');
  const fromMs = window?.fromMs === undefined ? undefined : window.fromMs - HOUR_MARGIN_MS;
  const untilMs = window?.toMs === undefined ? undefined : window.toMs + HOUR_MARGIN_MS;

  const listing = storage.list(input.bucket, listed, after);
  let jump: string | undefined;
  for (;;) {
    const next = await (jump === undefined ? listing.next() : listing.next(jump));
    jump = undefined;
    if (next.done) return;
    const object = next.value;
    if (scope.excludes?.(object.key)) continue;
    const hour = hourPathOf(object.key);
    const isBefore = hour !== undefined && fromMs !== undefined && hour.startMs + HOUR_MS <= fromMs;
    if (hour !== undefined && (isBefore || (untilMs !== undefined && hour.startMs >= untilMs))) {
      // "0" is the character after "/".
      const day = `${hour.base}${formatHour(hour.startMs).slice(0, DAY_LENGTH)}`;
      const first = isBefore ? `${hour.base}${formatHour(fromMs)}` : '';
      jump = first.startsWith(`${day}/`) ? first : `${day}0`;
      // The rest of the day’s folder: files that are in no hour are read regardless of the window.
      for await (const loose of storage.listFolder(input.bucket, `${day}/`)) {
        if (scope.excludes?.(loose.key)) continue;
        if (loose.key > object.key && loose.key < jump && loose.key.endsWith(CAPTURE_SUFFIX)) yield loose;
      }
      continue;
    }
    if (object.key.endsWith(CAPTURE_SUFFIX)) yield object;
  }
}

/**
 * Yields the files of a prefix and a window in key order, or the one file if the prefix is a complete key.
 *
 * @throws PermanentError `OutsideCaptureScope`, `NotACaptureFile`, `CaptureMissing`
 */
export async function* filesUnder(
  storage: Storage,
  scope: CaptureScope,
  { bucket, prefix }: BackfillInput,
  window: RunOptions['window'],
): AsyncGenerator<ObjectFacts> {
  if (prefix.endsWith(CAPTURE_SUFFIX)) yield await capturedObject(storage, scope, bucket, prefix);
  else yield* backfillObjects(storage, scope, { bucket, prefix }, window);
}
