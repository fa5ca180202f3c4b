/**
 * The index in the work bucket. A part of a run writes an object for each hour, and many small objects of an hour are merged. An
 * object is named by its content and never changes, so nothing is lost and nothing needs a lock: whoever deletes objects has first
 * written all of their rows to another. A call that is in several of them is read once.
 */

import { scanLines } from '../../captures/lines/scan-lines.ts';
import { removeObject } from '../../core/aws/remove-object.ts';
import type { ObjectFacts, Storage } from '../../core/aws/storage.ts';
import { notS3 } from '../../core/aws/storage-errors.ts';
import { truthKeys } from '../../core/contract/work-keys.ts';
import { forEachConcurrently, inOrder } from '../../core/process/concurrency.ts';
import { logger } from '../../core/process/logging.ts';
import { gunzipped } from '../../core/values/gzip.ts';
import { BlockPile } from './block-pile.ts';
import { decodeBlock, type IndexBlock } from './blocks.ts';

export interface IndexHour {
  /** UTC, such as `2026-11-20T10`. */
  hour: string;
  objects: Pick<ObjectFacts, 'key' | 'size' | 'lastModifiedMs'>[];
}

/** Small objects of an hour, from which on they are merged. */
const MERGE_FROM = 50;
/** An object of this size is merged no more. Bytes. */
const LARGE = 4 * 1024 * 1024;
/** What is merged at once, in memory. Bytes. */
const MERGED_AT_ONCE = 2 * LARGE;
/** Requests in flight. */
const AT_ONCE = 8;
const HOURS_AT_ONCE = 4;

/** Writes an object that is named by its content. */
export const putIndex = (storage: Storage, bucket: string, key: string, body: Buffer): Promise<void> =>
  storage.putBytes(bucket, key, { body, type: 'application/gzip' });

/**
 * Yields the hours that have predictions, in order.
 *
 * @param window hours, `from` inclusive, `to` exclusive
 */
export async function* listHours(
  storage: Storage,
  bucket: string,
  { from = '', to }: { from?: string; to?: string } = {},
): AsyncGenerator<IndexHour> {
  let open: IndexHour | undefined;
  for await (const object of storage.list(bucket, truthKeys.indexPrefix, `${truthKeys.indexPrefix}${from}`)) {
    const hour = object.key.slice(truthKeys.indexPrefix.length).split('/')[0] as string;
    if (to !== undefined && hour >= to) break;
    if (open?.hour !== hour) {
      if (open !== undefined) yield open;
      open = { hour, objects: [] };
    }
    open.objects.push(object);
  }
  if (open !== undefined) yield open;
}

async function hourNow(storage: Storage, bucket: string, hour: string): Promise<IndexHour> {
  const objects: IndexHour['objects'] = [];
  for await (const object of storage.list(bucket, truthKeys.indexOfHour(hour))) objects.push(object);
  return { hour, objects };
}

/** Objects that a run wrote come before merged ones, and later ones before earlier ones. */
function latestFirst(objects: IndexHour['objects']): IndexHour['objects'] {
  const isMerged = ({ key }: { key: string }): number => (key.includes('/all-') ? 1 : 0);
  return objects.toSorted((a, b) => isMerged(a) - isMerged(b) || b.lastModifiedMs - a.lastModifiedMs);
}

/**
 * Yields the predictions of an hour, each once: of those that several runs have indexed, the latest.
 *
 * @param hour as `listHours` lists it. What is merged meanwhile is found.
 * @throws the errors of the storage; RetryableError `StorageUnavailable` for an object that is no index
 */
export async function* readHour(
  storage: Storage,
  bucket: string,
  { hour, objects }: IndexHour,
): AsyncGenerator<IndexBlock> {
  const read = new Set<string>();
  const calls = new Set<string>();
  for (let left = objects; left.length > 0; ) {
    for (const { key } of left) read.add(key);
    const isWhole = yield* readObjects(storage, bucket, left, calls);
    // The rows of an object that is gone are in another one, which was not there before.
    const now = isWhole ? [] : (await hourNow(storage, bucket, hour)).objects;
    left = now.filter(({ key }) => !read.has(key));
  }
}

/** @param calls gets the calls that were read. @returns whether no object was missing */
async function* readObjects(
  storage: Storage,
  bucket: string,
  objects: IndexHour['objects'],
  calls: Set<string>,
): AsyncGenerator<IndexBlock, boolean> {
  let isWhole = true;
  const get = async ({ key }: { key: string }) => ({ key, stored: await storage.getBytes(bucket, key) });
  for await (const { key, stored } of inOrder(AT_ONCE, latestFirst(objects), get)) {
    isWhole &&= stored !== undefined;
    if (stored === undefined) continue;
    const own = new Set<string>();
    const isSeen = (call: string): boolean => {
      own.add(call);
      return calls.has(call);
    };
    for await (const block of readIndex(stored.bytes, `s3://${bucket}/${key}`, isSeen)) {
      if (block.ids.length > 0) yield block;
    }
    for (const call of own) calls.add(call);
  }
  return isWhole;
}

/**
 * Merges the small objects of these hours where there are many. The next run that touches an hour merges what failed.
 *
 * @param hasTime whether there is time to merge some megabytes
 */
export async function mergeHours(
  storage: Storage,
  bucket: string,
  hours: Iterable<string>,
  hasTime: () => boolean = () => true,
): Promise<void> {
  await forEachConcurrently(HOURS_AT_ONCE, hours, async (hour) => {
    try {
      while (hasTime() && (await mergeHour(storage, bucket, hour)));
    } catch (error) {
      logger.warn('The predictions of an hour could not be merged', { hour, error: error as Error });
    }
  });
}

/** @returns whether anything was merged */
async function mergeHour(storage: Storage, bucket: string, hour: string): Promise<boolean> {
  const { objects } = await hourNow(storage, bucket, hour);
  const small = latestFirst(objects.filter(({ size }) => size < LARGE));
  if (small.length < MERGE_FROM) return false;
  const sources: IndexHour['objects'] = [];
  let bytes = 0;
  // The oldest, so that what a later run has indexed stays the latest.
  for (let next = small.pop(); next !== undefined && bytes + next.size <= MERGED_AT_ONCE; next = small.pop()) {
    sources.push(next);
    bytes += next.size;
  }
  const pile = new BlockPile();
  const blocks = readObjects(storage, bucket, sources, new Set());
  let block = await blocks.next();
  for (; !block.done; block = await blocks.next()) {
    for (const index of block.value.ids.keys()) pile.add(block.value.rowAt(index));
  }
  const merged = pile.end();
  // If an object is gone, another run is merging them.
  if (!block.value || merged === undefined) return false;
  const target = truthKeys.mergedIndex(hour, merged.digest);
  await putIndex(storage, bucket, target, merged.body);
  const done = sources.filter(({ key }) => key !== target);
  await forEachConcurrently(AT_ONCE, done, ({ key }) => removeObject(storage, bucket, key));
  return true;
}

/** Yields the blocks of an object. @param leaveOut see `decodeBlock` */
export async function* readIndex(
  bytes: Buffer,
  where: string,
  leaveOut?: (call: string) => boolean,
): AsyncGenerator<IndexBlock> {
  try {
    for await (const line of scanLines(gunzipped([bytes], where), Number.POSITIVE_INFINITY)) {
      yield decodeBlock((line.bytes as Buffer).toString(), leaveOut);
    }
  } catch (error) {
    throw notS3(`${bytes.length} bytes that are no index (${(error as Error).name})`, where);
  }
}
