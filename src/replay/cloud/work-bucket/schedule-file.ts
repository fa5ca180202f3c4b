/**
 * The schedule of one shard, as lines that point to captures. A line introduces each capture file before its first
 * request. Requests refer to the files by number.
 */

import { buffer } from 'node:stream/consumers';
import { type ScannedLine, scanLines } from '../../../captures/lines/scan-lines.ts';
import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import { inOrder } from '../../../core/process/concurrency.ts';
import type { ScheduledEntry } from '../../schedule/timing.ts';
import { RangeReader } from '../../source/range-reader.ts';
import type { SourceFile } from '../../source/types.ts';

/** A capture file in S3, in the version that was planned. */
export interface CaptureObject extends SourceFile {
  bucket: string;
  etag: string;
  versionId?: string;
}

interface FileLine {
  file: Omit<CaptureObject, 'path'>;
}

/** Returns the lines of one shard. */
export function scheduleText(files: readonly CaptureObject[], entries: readonly ScheduledEntry[]): string {
  const known = new Map<number, number>();
  const lines: (FileLine | ScheduledEntry)[] = [];
  for (const one of entries) {
    const file = known.get(one.entry.file) ?? known.size;
    if (file === known.size) {
      const { path: _, ...named } = files[one.entry.file] as CaptureObject;
      lines.push({ file: named });
      known.set(one.entry.file, file);
    }
    lines.push({ ...one, entry: { ...one.entry, file } });
  }
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}

export interface ShardSchedule {
  files: CaptureObject[];
  /** Sorted by due time. */
  entries: ScheduledEntry[];
}

/** Parses a schedule. @throws PermanentError `InvalidSchedule` */
export function readSchedule(text: string, where: string): ShardSchedule {
  const files: CaptureObject[] = [];
  const entries: ScheduledEntry[] = [];
  for (const [i, line] of text.split('\n').entries()) {
    if (line === '') continue;
    const parsed = JSON.parse(line) as FileLine | ScheduledEntry;
    if ('file' in parsed) {
      files.push({ ...parsed.file, path: '' });
      continue;
    }
    if (parsed.entry.file >= files.length) {
      throw new PermanentError('InvalidSchedule', 'A line refers to a file that no earlier line names', {
        got: line,
        where: `${where}, line ${i + 1}`,
      });
    }
    // JSON has no NaN, which is the due time without a schedule.
    entries.push({ ...parsed, dueMs: parsed.dueMs ?? Number.NaN });
  }
  return { files, entries };
}

// --------------------------------------------------------------------------------------------------- lines of captures
// Reads lines of objects in bounded memory: by their place, or all lines of one object after the other.

/** Bytes per read of an object. */
const BLOCK_BYTES = 1024 * 1024;
/** Blocks that are read at the same time. S3 takes about 30 ms to the first byte: one by one, a thousand files would cost half a minute. */
const BLOCKS_AHEAD = 16;

/** Reads captured lines by their place. */
export const objectReader = (storage: Storage, files: readonly CaptureObject[]): RangeReader =>
  new RangeReader(files, async ({ file, start, end }, signal) => {
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
