/** The schedule of one shard: where its requests are captured, and when each is due. */

import { buffer } from 'node:stream/consumers';
import { type ScannedLine, scanLines } from '../../../captures/lines/scan-lines.ts';
import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import { inOrder } from '../../../core/process/concurrency.ts';
import type { ScheduledEntry } from '../../schedule/timing.ts';
import { type RangeReader, rangeReader } from '../../source/range-reader.ts';
import type { SourceFile } from '../../source/types.ts';

/** A capture file in S3, in the version that was planned. */
export interface CaptureObject extends SourceFile {
  bucket: string;
  etag: string;
  versionId?: string;
}

/** The schedule of one shard: a warm-up, if any, and requests that are sorted by due time. */
export interface ShardSchedule {
  /** The capture files of the requests, to which they refer by number. */
  files: CaptureObject[];
  entries: ScheduledEntry[];
}

/** Returns the schedule as it is stored. */
export function scheduleOf(files: readonly CaptureObject[], entries: readonly ScheduledEntry[]): ShardSchedule {
  const used = [...new Set(entries.map(({ entry }) => entry.file))];
  const numbers = new Map(used.map((file, number) => [file, number]));
  return {
    files: used.map((file) => files[file] as CaptureObject),
    entries: entries.map((one) => ({ ...one, entry: { ...one.entry, file: numbers.get(one.entry.file) ?? 0 } })),
  };
}

export async function readSchedule(storage: Storage, bucket: string, key: string): Promise<ShardSchedule> {
  const { files, entries } = (await storage.getJson(bucket, key)) as ShardSchedule;
  // JSON has no NaN, which is the due time without a schedule.
  return { files, entries: entries.map((one) => ({ ...one, dueMs: one.dueMs ?? Number.NaN })) };
}

// --------------------------------------------------------------------------------------------------- lines of captures
// Reads lines of objects in bounded memory: by their place, or all lines of one object after the other.

/** Bytes per read of an object. */
const BLOCK_BYTES = 1024 * 1024;
/** Blocks that are read at the same time. S3 takes about 30 ms to the first byte: one by one, a thousand files would cost half a minute. */
const BLOCKS_AHEAD = 16;

/** Reads captured lines by their place. */
export const objectReader = (storage: Storage, files: readonly CaptureObject[]): RangeReader =>
  rangeReader(files, async ({ file, start, end }, signal) => {
    const { bucket, name: key, etag, versionId } = files[file] as CaptureObject;
    const object = { bucket, key, etag, versionId };
    const bytes = await buffer(await storage.read(object, { start, end: end - 1 }, signal));
    return (entry) => bytes.subarray(entry.start - start, entry.start - start + entry.length);
  });

function* placesOf(objects: readonly ObjectFacts[]) {
  for (const object of objects) {
    for (let start = 0; start < object.size; start += BLOCK_BYTES)
      yield { object, start, end: Math.min(object.size, start + BLOCK_BYTES) - 1 };
  }
}

/** Yields a scanner of each object, to be read in order: the next blocks, also of the next objects, are requested ahead. */
export function* scannersOf(
  storage: Storage,
  objects: readonly ObjectFacts[],
  maxLineBytes: number,
): Generator<AsyncGenerator<ScannedLine>> {
  const blocks = inOrder(BLOCKS_AHEAD, placesOf(objects), async ({ object, ...range }) =>
    buffer(await storage.read(object, range)),
  );
  async function* blocksOf({ size }: ObjectFacts): AsyncGenerator<Buffer> {
    for (let start = 0; start < size; start += BLOCK_BYTES) yield (await blocks.next()).value;
  }
  for (const object of objects) yield scanLines(blocksOf(object), maxLineBytes);
}
