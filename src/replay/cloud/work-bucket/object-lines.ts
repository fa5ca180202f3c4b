/** Reads lines of objects in bounded memory: by their place, one object after the other, or merged. */
import { buffer } from 'node:stream/consumers';
import { type ScannedLine, scanLines } from '../../../captures/lines/scan-lines.ts';
import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import { RangeReader } from '../../source/range-reader.ts';
import type { CaptureObject } from './schedule-file.ts';

/** Bytes per read of an object. Less if many objects are merged. */
const BLOCK_BYTES = 1024 * 1024;
const LEAST_BLOCK_BYTES = 64 * 1024;
/** Bytes in memory during a merge: for each object, the current block and the prefetched one. */
const MERGE_BYTES = 128 * 1024 * 1024;
/**
 * Objects that are prefetched. S3 takes about 30 ms to the first byte: one by one, a thousand shards would cost half a minute
 * for each kind of file.
 */
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
function blocksOf(storage: Storage, object: ObjectFacts, blockBytes = BLOCK_BYTES) {
  let asked = 0;
  let next: Promise<Buffer> | undefined;
  const prefetch = (): void => {
    if (next || asked >= object.size) return;
    const start = asked;
    asked = Math.min(object.size, start + blockBytes);
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
  return { prefetch, lines: (maxLineBytes = Number.POSITIVE_INFINITY) => scanLines(blocks(), maxLineBytes) };
}

/** Yields a scanner of each object, to be read in order: while one is read, the beginnings of the next ones are requested. */
export function* scannersOf(
  storage: Storage,
  objects: readonly ObjectFacts[],
  maxLineBytes?: number,
): Generator<AsyncGenerator<ScannedLine>> {
  const all = objects.map((object) => blocksOf(storage, object));
  for (const [i, { lines }] of all.entries()) {
    for (const next of all.slice(i, i + FILES_AHEAD)) next.prefetch();
    yield lines(maxLineBytes);
  }
}

/** All lines of the objects, one object after the other. */
export async function* linesOf(storage: Storage, objects: readonly ObjectFacts[]): AsyncGenerator<Buffer> {
  for (const lines of scannersOf(storage, objects)) for await (const { bytes } of lines) yield bytes as Buffer;
}

export interface MergeSource {
  object: ObjectFacts;
  /** Lower bound of its keys. The object is not opened before the merge reaches it. */
  leastKey: number;
}

interface Open {
  key: number;
  ordinal: number;
  prefetch(): void;
  lines: AsyncGenerator<ScannedLine>;
  line?: Buffer | undefined;
}

/**
 * Merges the lines of nearly sorted objects by key. Equal keys are in the order of the objects.
 *
 * @param keyOf returns the key of a line
 */
export async function* mergeLines(
  storage: Storage,
  sources: readonly MergeSource[],
  keyOf: (line: Buffer) => number,
): AsyncGenerator<Buffer> {
  const bytesOfEach = Math.floor(MERGE_BYTES / 2 / sources.length);
  const blockBytes = Math.max(LEAST_BLOCK_BYTES, Math.min(BLOCK_BYTES, bytesOfEach));
  const inOrder = sources
    .map(({ object, leastKey }, ordinal): Open => {
      const { prefetch, lines } = blocksOf(storage, object, blockBytes);
      return { key: leastKey, ordinal, prefetch, lines: lines() };
    })
    .sort((a, b) => a.key - b.key || a.ordinal - b.ordinal);
  const open = [...inOrder];
  let asked = 0;
  const askNext = (): void => inOrder[asked++]?.prefetch();
  while (asked < FILES_AHEAD) askNext();
  for (let first = open.shift(); first; first = open.shift()) {
    if (first.line) yield first.line;
    else askNext();
    const { value } = await first.lines.next();
    first.line = value?.bytes;
    if (!first.line) continue;
    first.key = keyOf(first.line);
    open.splice(placeOf(first, open), 0, first);
  }
}

const isBefore = (a: Open, b: Open): boolean => (a.key === b.key ? a.ordinal < b.ordinal : a.key < b.key);

/** The index in the sorted list at which the object belongs. */
function placeOf(one: Open, sorted: readonly Open[]): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(sorted[middle] as Open, one)) low = middle + 1;
    else high = middle;
  }
  return low;
}
