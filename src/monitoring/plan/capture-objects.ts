/** Which capture files a run is about: one object, or all of a prefix within a window of hours. */

import type { BackfillInput, ObjectInput, RunOptions } from '../../contract/input.ts';
import { formatHour, HOUR_MS, hourPathOf } from '../../formats/record/capture-path.ts';
import { PermanentError } from '../../shared/errors.ts';
import { unquote } from '../../shared/object-stream.ts';
import type { ObjectFacts, Storage } from '../../shared/storage.ts';

/** Where captures may come from: what the stack has permission for, and whose endpoint its traces are tagged with. */
export interface CaptureScope {
  bucket: string;
  /** Ends with `/`, or is empty. */
  prefix: string;
}

const CAPTURE_SUFFIX = '.jsonl';

function assertInScope(scope: CaptureScope, bucket: string, key: string, what: string): void {
  if (bucket === scope.bucket && key.startsWith(scope.prefix)) return;
  throw new PermanentError('OutsideCaptureScope', `This stack does not process that ${what}`, {
    got: `s3://${bucket}/${key}`,
    expected: `something under s3://${scope.bucket}/${scope.prefix}`,
  });
}

/** @throws PermanentError `NotACaptureFile`, `OutsideCaptureScope`, `CaptureMissing`. */
export async function objectOf(storage: Storage, scope: CaptureScope, input: ObjectInput): Promise<ObjectFacts> {
  const { bucket, object } = input.detail;
  const { 'version-id': version } = object;
  return capturedObject(storage, scope, bucket.name, object.key, version === 'null' ? undefined : version);
}

/** Says of a file whose bucket keeps no versions that it is no longer the one whose event started the run. */
export function overwrittenSince({ detail: { object } }: ObjectInput, found: ObjectFacts): string | undefined {
  if (object.etag === undefined || unquote(object.etag) === found.etag) return undefined;
  const where = `s3://${found.bucket}/${found.key}`;
  return `${where} was overwritten after its event (etag ${unquote(object.etag)}, now ${found.etag}): what only the earlier content held is gone, unless a run had read it before; in a versioned bucket each event's own version is read`;
}

/** @throws PermanentError `NotACaptureFile`, `OutsideCaptureScope`, `CaptureMissing`. */
export async function capturedObject(
  storage: Storage,
  scope: CaptureScope,
  bucket: string,
  key: string,
  version?: string,
): Promise<ObjectFacts> {
  if (!key.endsWith(CAPTURE_SUFFIX)) {
    throw new PermanentError('NotACaptureFile', 'The key is not that of a capture file', {
      got: key,
      expected: `a key that ends with ${CAPTURE_SUFFIX}`,
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
 * A record's file may lie in the hour before or after the record's own: captures are flushed late, and a file is named
 * by one of its records. One hour on each side is read more, and the records' own time decides.
 */
const HOUR_MARGIN_MS = HOUR_MS;

/** Characters of `yyyy/mm/dd`. */
const DAY_LENGTH = 10;

/**
 * Capture files of a backfill in S3's order, those of hours outside the window skipped without listing them:
 * the listing jumps to the window's first hour, and over each day behind its last.
 *
 * @param after last key of the part before, exclusive.
 */
export async function* backfillObjects(
  storage: Storage,
  scope: CaptureScope,
  input: BackfillInput,
  window: RunOptions['window'],
  after?: string,
): AsyncGenerator<ObjectFacts> {
  const prefix = input.prefix === '' || input.prefix.endsWith('/') ? input.prefix : `${input.prefix}/`;
  // A wider prefix, such as the bucket's root, means all that the stack may read.
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
    const hour = hourPathOf(object.key);
    if (hour !== undefined && fromMs !== undefined && hour.startMs + HOUR_MS <= fromMs) {
      // Everything of this base before the window's first hour sorts before this key.
      jump = `${hour.base}${formatHour(fromMs)}`;
      continue;
    }
    if (hour !== undefined && untilMs !== undefined && hour.startMs >= untilMs) {
      // The rest of this day's folder: files that lie in no hour are read whatever the window.
      const day = `${hour.base}${formatHour(hour.startMs).slice(0, DAY_LENGTH)}`;
      for await (const loose of storage.listFolder(input.bucket, `${day}/`)) {
        if (loose.key > object.key && loose.key.endsWith(CAPTURE_SUFFIX)) yield loose;
      }
      // "0" is the character after "/".
      jump = `${day}0`;
      continue;
    }
    if (object.key.endsWith(CAPTURE_SUFFIX)) yield object;
  }
}
