/** Finds the captures of a replay in S3 and sorts them by time, without copying them. */
import { backfillObjects, type CaptureScope, capturedObject } from '../../../captures/files/capture-objects.ts';
import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import { DEFAULT_MAX_LINE_BYTES } from '../../../core/values/line-bound.ts';
import { sum } from '../../../core/values/sum.ts';
import { isByCapturedTimes } from '../../derived-options.ts';
import { Marks } from '../../marks/believe.ts';
import type { Keep } from '../../request/keep.ts';
import { indexCaptures } from '../../source/index-captures.ts';
import type { OnSkipped } from '../../source/types.ts';
import type { CaptureObject } from '../work-bucket/schedule-file.ts';
import { scannersOf } from '../work-bucket/schedule-file.ts';
import { ConversationFinder } from './conversations.ts';
import type { ReplayJob } from './input.ts';

/** For an error, from `SCHEDULE_RESERVE_MS` and the measurements in `../limits.ts`. */
const MOST_READ = 'about 15 GB of chats at 22 MB/s, less if S3 or the processor is slower';

/** Records between two checks of the remaining time. */
const RECORDS_BETWEEN_CHECKS = 1000;

export type IndexedCaptures = Awaited<ReturnType<typeof indexObjects>>;

/**
 * Reads all captures of the job and returns their index and conversations.
 *
 * @param workBucket has the registrations of earlier replays
 * @param remainingMs time for reading captures
 * @param keep masks the names of conversations
 * @throws PermanentError `NoCaptureFiles`, `OutsideCaptureScope`, `CaptureMissing`, `ReplayTooLarge`, and errors of the
 * storage
 */
export async function indexObjects(
  storage: Storage,
  scope: CaptureScope,
  job: ReplayJob,
  onSkipped: OnSkipped,
  workBucket: string,
  remainingMs: () => number,
  keep?: Keep,
) {
  const objects = await Array.fromAsync(objectsOf(storage, scope, job));
  if (objects.length === 0) {
    throw new PermanentError('NoCaptureFiles', 'There are no capture files under this prefix in this time window', {
      got: `s3://${job.source.bucket}/${job.source.prefix}`,
      expected: 'keys that end with .jsonl, in the hours from source.from to source.to',
    });
  }
  const files = objects.map(
    ({ key: name, lastModifiedMs: _, ...object }): CaptureObject => ({ ...object, name, path: '' }),
  );
  const conversations = new ConversationFinder(keep?.id);
  const scanners = scannersOf(storage, objects, DEFAULT_MAX_LINE_BYTES);
  let opened = 0;
  let records = 0;
  const checkTime = (): void => {
    if (remainingMs() > 0) return;
    const bytesOf = (some: readonly CaptureObject[]): number => sum(some.map(({ size }) => size));
    throw replayTooLarge(
      `${bytesOf(files)} bytes; the function had time for ${bytesOf(files.slice(0, opened))} of them (${opened} of ${files.length} files, ${records} records)`,
      `at most what one function can read: ${MOST_READ}`,
    );
  };
  const index = await indexCaptures(files, {
    ...job.window,
    needsTime: isByCapturedTimes(job.options),
    onSkipped,
    scan: (file) => {
      checkTime();
      conversations.file(file);
      opened++;
      return scanners.next().value;
    },
    marks: () => new Marks(storage, workBucket),
    onRecord: (bytes, entry) => {
      if (records % RECORDS_BETWEEN_CHECKS === 0) checkTime();
      records++;
      conversations.record(bytes, entry);
    },
  });
  return { files, index, conversations };
}

/** The error of a replay that is too large to be planned, with advice. */
export const replayTooLarge = (got: string, expected: string): PermanentError =>
  new PermanentError('ReplayTooLarge', 'There are too many captures to plan them in one execution', {
    got,
    expected: `${expected}; narrow the window (source.from, source.to) or the prefix`,
  });

/** The objects under the prefix in key order, or the one object that the prefix names completely. */
async function* objectsOf(storage: Storage, scope: CaptureScope, job: ReplayJob): AsyncGenerator<ObjectFacts> {
  const { bucket, prefix } = job.source;
  if (prefix.endsWith('.jsonl')) yield await capturedObject(storage, scope, bucket, prefix);
  else yield* backfillObjects(storage, scope, { bucket, prefix }, job.window);
}
