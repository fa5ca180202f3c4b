/** Reads lines of objects in bounded memory: by their place, or one object after the other. */
import { buffer } from 'node:stream/consumers';
import { type ScannedLine, scanLines } from '../../../captures/lines/scan-lines.ts';
import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import { RangeReader } from '../../source/range-reader.ts';
import type { CaptureObject } from './schedule-file.ts';

/** Bytes per read of an object. */
const BLOCK_BYTES = 1024 * 1024;
/** Objects that are prefetched. S3 takes about 30 ms to the first byte: one by one, a thousand files would cost half a minute. */
const FILES_AHEAD = 16;

/** Reads captured lines by their place. */
export const objectReader = (storage: Storage, files: readonly CaptureObject[]): RangeReader =>
  new RangeReader(files, async ({ file, start, end }, signal) => {
    const { bucket, name: key, etag, versionId } = files[file] as CaptureObject;
    const object = { bucket, key, etag, versionId };
    const bytes = await buffer(await storage.read(object, { start, end: end - 1 }, signal));
    return (entry) => bytes.subarray(entry.start - start, entry.start - start + entry.length);
  });

/** Reads an object in blocks, the next of which is requested before it is needed. `prefetch` requests the first one. */
function blocksOf(storage: Storage, object: ObjectFacts) {
  let asked = 0;
  let next: Promise<Buffer> | undefined;
  const prefetch = (): void => {
    if (next || asked >= object.size) return;
    const start = asked;
    asked = Math.min(object.size, start + BLOCK_BYTES);
    next = storage.read(object, { start, end: asked - 1 }).then(buffer);
    // An error is thrown when the block is needed.
    next.catch(() => {});
  };
  async function* blocks(): AsyncGenerator<Buffer> {
    for (prefetch(); next; ) {
      const block = await next;
      next = undefined;
      prefetch();
      yield block;
    }
  }
  return { prefetch, lines: (maxLineBytes: number) => scanLines(blocks(), maxLineBytes) };
}

/** Yields a scanner of each object, to be read in order: while one is read, the beginnings of the next ones are requested. */
export function* scannersOf(
  storage: Storage,
  objects: readonly ObjectFacts[],
  maxLineBytes: number,
): Generator<AsyncGenerator<ScannedLine>> {
  const all = objects.map((object) => blocksOf(storage, object));
  for (const [i, { lines }] of all.entries()) {
    for (const next of all.slice(i, i + FILES_AHEAD)) next.prefetch();
    yield lines(maxLineBytes);
  }
}
