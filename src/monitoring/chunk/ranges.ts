/** Reads the ranges of a chunk. The bytes of quarantined lines outlive the capture file. */
import { Readable } from 'node:stream';

import { isOfOneFile } from '../../captures/files/capture-objects.ts';
import type { Work } from '../../core/aws/storage.ts';
import type { CaptureRange, ManifestLine } from '../../core/contract/payloads.ts';
import type { QuarantineEntry } from '../../core/contract/receipts.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { inOrder } from '../../core/process/concurrency.ts';

/** A chunk before it has a number. */
export type UnnumberedChunk = Omit<ManifestLine, 'chunk'>;

/** Identifies a line: its file in one state, and its first byte. */
export const lineId = ({ key, versionId, etag, start }: Pick<CaptureRange, 'key' | 'versionId' | 'etag' | 'start'>) =>
  `${key}\n${versionId ?? etag}\n${start}`;

/** Whether a line with this location is in the range. */
const isInside = (line: Parameters<typeof lineId>[0], range: CaptureRange): boolean =>
  range.lines > 0 &&
  line.start >= range.start &&
  line.start <= range.end &&
  lineId(line) === lineId({ ...range, start: line.start });

/** Returns the chunk with its ranges, which a long line of the manifest only refers to. */
export async function withRanges<Chunk extends UnnumberedChunk>(
  { storage, workBucket }: Work,
  chunk: Chunk,
): Promise<Chunk> {
  if (chunk.rangesIn === undefined) return chunk;
  const ranges = await storage.getJson<CaptureRange[]>(workBucket, chunk.rangesIn);
  if (ranges !== undefined) return { ...chunk, ranges, rangesIn: undefined };
  const where = `s3://${workBucket}/${chunk.rangesIn}`;
  throw new PermanentError('RangesMissing', 'The list of the ranges of a chunk does not exist', { where });
}

/** A range with its bytes, or with the reason why its file cannot be read any more. */
type OpenRange = { index: number; range: CaptureRange } & (
  | { bytes: AsyncIterable<Uint8Array>; fault?: never }
  | { fault: Error }
);

/**
 * Number of ranges that are read at the same time: 500 ranges of one line each, at 35 ms, take a second instead of 18.
 */
export const RANGES_AT_ONCE = 16;

/**
 * Yields the nonempty ranges of a chunk, in order. If there are several, their files may be unreadable. Several ranges
 * are read completely, ahead of time: together they are within the size of a chunk.
 *
 * @throws the errors of `Storage.read`; errors of one file only if the chunk has no other range
 */
export async function* openRanges(work: Work, { ranges }: Pick<ManifestLine, 'ranges'>): AsyncGenerator<OpenRange> {
  const [only] = ranges;
  if (only !== undefined && ranges.length === 1) {
    if (only.lines > 0) yield { index: 0, range: only, bytes: await openRange(work, only) };
    return;
  }
  const present = [...ranges.entries()].filter(([, { lines }]) => lines > 0);
  yield* inOrder(RANGES_AT_ONCE, present, async ([index, range]): Promise<OpenRange> => {
    try {
      return { index, range, bytes: Readable.from(await Array.fromAsync(await openRange(work, range))) };
    } catch (error) {
      if (!isOfOneFile(error)) throw error;
      return { index, range, fault: error as Error };
    }
  });
}

/**
 * Opens the bytes of a range: from its capture file, or from the quarantine object that contains its lines if the capture
 * file was deleted or overwritten.
 *
 * @throws the errors of `Storage.read`
 */
async function openRange({ storage, workBucket }: Work, range: CaptureRange): Promise<AsyncIterable<Uint8Array>> {
  try {
    return await storage.read(range, { start: range.start, end: range.end });
  } catch (error) {
    if (range.keptIn === undefined || !(error instanceof PermanentError)) throw error;
    const all = await storage.getJsonLines<QuarantineEntry>(workBucket, range.keptIn);
    const entries = all.filter((entry) => isInside(entry, range) && entry.base64 !== undefined);
    if (entries.length === 0) throw error;
    return keptBytes(entries, range);
  }
}

/** Yields the lines at their original places, with line endings of the original one or two bytes between them. */
async function* keptBytes(entries: readonly QuarantineEntry[], { start }: CaptureRange): AsyncGenerator<Buffer> {
  let at = start;
  for (const entry of entries) {
    if (entry.start > at) yield Buffer.from(entry.start - at === 2 ? '\r\n' : '\n');
    yield Buffer.from(entry.base64 ?? '', 'base64');
    at = entry.end + 1;
  }
}
