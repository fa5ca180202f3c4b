/** Finds the captures of a replay in S3 and sorts them by time, without copying them. */

import { buffer } from 'node:stream/consumers';
import { backfillObjects, type CaptureScope, capturedObject } from '../../../captures/files/capture-objects.ts';
import { type ScannedLine, scanLines } from '../../../captures/lines/scan-lines.ts';
import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import { DEFAULT_MAX_LINE_BYTES } from '../../../core/values/line-bound.ts';
import { indexFor } from '../../derived-options.ts';
import { Marks } from '../../marks/believe.ts';
import type { SortedIndex } from '../../source/sorted-index.ts';
import type { OnSkipped, SourceFile } from '../../source/types.ts';
import type { CaptureObject } from '../work-bucket/schedule-file.ts';
import { ConversationFinder } from './conversations.ts';
import type { ReplayJob } from './input.ts';

/** Small files are prefetched, because requesting one takes longer than reading it: at most 8 × 8 MiB. */
const AHEAD = 8;
const SMALL_BYTES = 8 * 1024 * 1024;

/** For an error, from `SCHEDULE_RESERVE_MS` and measurements (`npm run bench -- replay-shard`). */
const MOST_READ = 'about 15 GB of chats at 22 MB/s, less if S3 or the processor is slower';

/** Records between two checks of the remaining time. */
const RECORDS_BETWEEN_CHECKS = 1000;

export interface IndexedCaptures {
  files: CaptureObject[];
  index: SortedIndex;
  conversations: ConversationFinder;
}

interface IndexLimits {
  /** Remaining time for reading captures. */
  remainingMs(): number;
  /** Has the registrations of earlier replays. */
  workBucket: string;
}

/**
 * Reads all captures of the job and returns their index and conversations.
 *
 * @throws PermanentError `NoCaptureFiles`, `OutsideCaptureScope`, `CaptureMissing`, `ReplayTooLarge`, and errors of the
 * storage
 */
export async function indexObjects(
  storage: Storage,
  scope: CaptureScope,
  job: ReplayJob,
  onSkipped: OnSkipped,
  limits: IndexLimits,
): Promise<IndexedCaptures> {
  const files: CaptureObject[] = [];
  for await (const object of objectsOf(storage, scope, job)) files.push(captureObject(object));
  if (files.length === 0) {
    throw new PermanentError('NoCaptureFiles', 'There are no capture files under this prefix in this time window', {
      got: `s3://${job.source.bucket}/${job.source.prefix}`,
      expected: 'keys that end with .jsonl, in the hours from source.from to source.to',
    });
  }
  const conversations = new ConversationFinder();
  const ahead = readAhead(storage, files);
  let records = 0;
  const checkTime = (): void => {
    if (limits.remainingMs() > 0) return;
    const read = files.slice(0, ahead.next).reduce((sum, { size }) => sum + size, 0);
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    throw replayTooLarge(
      `${bytes} bytes; the function had time for ${read} of them (${ahead.next} of ${files.length} files, ${records} records)`,
      `at most what one function can read: ${MOST_READ}`,
    );
  };
  const index = await indexFor(files, job.options, job.window, onSkipped, {
    scan: (file: SourceFile): AsyncIterable<ScannedLine> => {
      checkTime();
      conversations.file(file);
      return scanLines(ahead.blocks(), DEFAULT_MAX_LINE_BYTES);
    },
    marks: () => new Marks(storage, limits.workBucket),
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

const captureObject = ({ bucket, key, etag, versionId, size }: ObjectFacts): CaptureObject => ({
  bucket,
  name: key,
  path: '',
  etag,
  versionId,
  size,
});

/** The objects under the prefix in key order, or the one object that the prefix names completely. */
async function* objectsOf(storage: Storage, scope: CaptureScope, job: ReplayJob): AsyncGenerator<ObjectFacts> {
  const { bucket, prefix } = job.source;
  if (prefix.endsWith('.jsonl')) yield await capturedObject(storage, scope, bucket, prefix);
  else yield* backfillObjects(storage, scope, { bucket, prefix }, job.window);
}

/** Reads the files one after the other and prefetches the next small ones. `blocks`: the bytes of the next file. */
function readAhead(storage: Storage, files: readonly CaptureObject[]) {
  const fetched = new Map<number, Promise<Buffer>>();
  const open = (ordinal: number) => {
    const { name: key, ...object } = files[ordinal] as CaptureObject;
    return storage.read({ ...object, key });
  };
  const fetch = (ordinal: number): void => {
    const { size } = files[ordinal] as CaptureObject;
    if (size > SMALL_BYTES || size === 0 || fetched.has(ordinal)) return;
    const found = open(ordinal).then(buffer);
    // An error is thrown when the file's turn comes.
    found.catch(() => {});
    fetched.set(ordinal, found);
  };
  return {
    next: 0,
    async *blocks(): AsyncGenerator<Buffer> {
      const ordinal = this.next++;
      for (let i = ordinal; i < Math.min(files.length, ordinal + AHEAD); i++) fetch(i);
      const whole = fetched.get(ordinal);
      fetched.delete(ordinal);
      if (whole) yield await whole;
      else yield* await open(ordinal);
    },
  };
}
