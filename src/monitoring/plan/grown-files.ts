/** Recognizes capture files that grew under a run: S3 has no append, so a longer file is another object under the same key. */
import { isOfOneFile } from '../../captures/files/capture-objects.ts';
import { readLines } from '../../captures/lines/read-lines.ts';
import type { ObjectFacts, Storage } from '../../core/aws/storage.ts';
import type { CaptureRange } from '../../core/contract/payloads.ts';
import type { ChunkState } from '../receipts.ts';

const CHANGED = 'CaptureChanged';

/** Returns the ordinals of the ranges whose file was overwritten before they were read. @param ranges of the chunk */
export function overwrittenRanges({ log }: ChunkState, ranges: readonly CaptureRange[]): ReadonlySet<number> {
  // The only range of a chunk fails the attempt.
  if (ranges.length === 1) return new Set(log.failed?.error?.name === CHANGED ? [0] : []);
  return new Set((log.done?.unread ?? []).filter(({ error }) => error.name === CHANGED).map(({ range }) => range));
}

/**
 * Returns the file as it is now, if the lines of the range are still in their place; `undefined` if they are gone. Nobody has kept
 * their content: lines that begin and end at the same bytes count as the same.
 */
export async function grownFile(storage: Storage, range: CaptureRange): Promise<ObjectFacts | undefined> {
  const { bucket, key, start, end, lines } = range;
  const object = await storage.head(bucket, key);
  if (object === undefined || object.size <= end) return undefined;
  // One byte more shows whether the last line ends there.
  const source = { ...range, end: Math.min(end + 1, object.size - 1) };
  let found = 0;
  try {
    const bytes = await storage.read(object, { start, end: source.end });
    for await (const line of readLines(bytes, source, { maxLineBytes: 0 })) {
      const place = line.kind === 'line' ? line.raw.place : line.place;
      if (place.start > end) break;
      if (place.end > end) return undefined;
      found += 1;
    }
  } catch (error) {
    if (isOfOneFile(error)) return undefined;
    throw error;
  }
  return found === lines ? object : undefined;
}
