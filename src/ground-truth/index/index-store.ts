/**
 * The index in the work bucket: predictions as compressed lines of JSON. A chunk writes a file for each hour of its
 * captures, and the files of an hour that is over are merged. A file is named by its content and never changes, so
 * nothing needs a lock: a file is deleted after all of its rows were written to another one.
 */

import { hash } from 'node:crypto';
import { HOUR_MS } from '../../captures/files/capture-path.ts';
import { scanPieces } from '../../captures/lines/scan-lines.ts';
import { gunzipped } from '../../core/aws/gzip.ts';
import { removeObject } from '../../core/aws/remove-object.ts';
import type { ObjectFacts, Storage } from '../../core/aws/storage.ts';
import { parseStored } from '../../core/aws/storage-errors.ts';
import type { PredictionRow } from '../../core/contract/ground-truth.ts';
import { truthKeys } from '../../core/contract/work-keys.ts';
import { forEachConcurrently, inOrder } from '../../core/process/concurrency.ts';
import { hourMs } from '../../quality/counts-store.ts';

type IndexFile = Pick<ObjectFacts, 'key' | 'size' | 'lastModifiedMs'>;

export interface IndexHour {
  /** UTC, such as `2026-11-20T10`. */
  hour: string;
  files: IndexFile[];
}

/** Files of chunks, from which on an hour is merged. */
const MERGE_FROM = 10;
/** Files are merged into some of at most this size. Bytes. */
const MERGED_BYTES = 8 * 1024 * 1024;
const DIGEST_CHARS = 16;
/** Requests in flight. */
const AT_ONCE = 8;

const ID_AT = '{"id":"'.length;
const QUOTE = 0x22;

/** Yields the hours that have predictions, in order. */
export async function* listHours(storage: Storage, bucket: string): AsyncGenerator<IndexHour> {
  let open: IndexHour | undefined;
  for await (const file of storage.list(bucket, truthKeys.indexPrefix)) {
    const hour = file.key.slice(truthKeys.indexPrefix.length).split('/')[0] as string;
    if (open?.hour !== hour) {
      if (open !== undefined) yield open;
      open = { hour, files: [] };
    }
    open.files.push(file);
  }
  if (open !== undefined) yield open;
}

/**
 * Yields the predictions in files of an hour. A prediction that several runs have indexed is there several times, the latest one
 * first.
 *
 * @param files those of `listHours`, or some of them. What is merged meanwhile is found.
 * @param isWanted says by their ids which predictions are yielded. The others are not parsed.
 * @throws the errors of the storage; PermanentError `NotGzip`
 */
export async function* readHour(
  storage: Storage,
  bucket: string,
  { hour, files }: IndexHour,
  isWanted: (id: string) => boolean,
): AsyncGenerator<PredictionRow> {
  const read = new Set<string>();
  const get = async ({ key }: IndexFile) => ({ key, stored: await storage.getBytes(bucket, key) });
  for (let left = files; left.length > 0; ) {
    let isWhole = true;
    for await (const { key, stored } of inOrder(AT_ONCE, latestFirst(left), get)) {
      read.add(key);
      if (stored === undefined) isWhole = false;
      else yield* rowsOf(stored.bytes, `s3://${bucket}/${key}`, isWanted);
    }
    left = [];
    if (isWhole) return;
    // The rows of a file that is gone are in another one, which was not there before.
    for await (const file of storage.list(bucket, truthKeys.indexOfHour(hour)))
      if (!read.has(file.key)) left.push(file);
  }
}

/** Files of chunks come before merged ones, and later ones before earlier ones. */
function latestFirst(files: readonly IndexFile[]): IndexFile[] {
  const isMerged = ({ key }: IndexFile): number => (key.includes('/merged-') ? 1 : 0);
  return files.toSorted((a, b) => isMerged(a) - isMerged(b) || b.lastModifiedMs - a.lastModifiedMs);
}

async function* rowsOf(bytes: Buffer, where: string, isWanted: (id: string) => boolean): AsyncGenerator<PredictionRow> {
  for await (const lines of scanPieces(gunzipped([bytes], where), Number.POSITIVE_INFINITY)) {
    for (const line of lines) {
      const text = line.bytes as Buffer;
      if (isWanted(idOf(text))) yield parseStored<PredictionRow>(text.toString(), where);
    }
  }
}

/** Returns the id of a line without parsing all of it. */
function idOf(line: Buffer): string {
  const id = line.toString('utf8', ID_AT, line.indexOf(QUOTE, ID_AT));
  return id.includes('\\') ? (JSON.parse(line.toString()) as PredictionRow).id : id;
}

/**
 * Merges the files of each hour that ended at least an hour ago and got no file since. Each file is merged once; what comes later
 * stays beside the merged ones, unless it is as many files again.
 *
 * @param hasTime whether there is time to merge some megabytes
 * @returns whether all hours are merged
 */
export async function mergeHours(storage: Storage, bucket: string, hasTime: () => boolean): Promise<boolean> {
  const beforeMs = Date.now() - HOUR_MS;
  for await (const { hour, files } of listHours(storage, bucket)) {
    const ofChunks = files.filter(({ key }) => key.includes('/chunk-'));
    const isOver = hourMs(hour) + HOUR_MS <= beforeMs && ofChunks.every((file) => file.lastModifiedMs < beforeMs);
    if (!isOver || ofChunks.length < MERGE_FROM) continue;
    for (const piece of piecesOf(latestFirst(ofChunks).toReversed())) {
      if (!hasTime()) return false;
      await mergeFiles(storage, bucket, hour, piece);
    }
  }
  return true;
}

function* piecesOf(files: readonly IndexFile[]): Generator<IndexFile[]> {
  let piece: IndexFile[] = [];
  let bytes = 0;
  for (const file of files) {
    if (bytes + file.size > MERGED_BYTES && piece.length > 0) {
      yield piece;
      [piece, bytes] = [[], 0];
    }
    piece.push(file);
    bytes += file.size;
  }
  yield piece;
}

/** @param files the earliest one first, so that what a later run has indexed is in the file that is written last */
async function mergeFiles(storage: Storage, bucket: string, hour: string, files: readonly IndexFile[]): Promise<void> {
  const contents: Buffer[] = [];
  for await (const stored of inOrder(AT_ONCE, files.toReversed(), ({ key }) => storage.getBytes(bucket, key))) {
    // Another run is merging them.
    if (stored === undefined) return;
    contents.push(stored.bytes);
  }
  // Files in gzip can follow each other.
  const body = Buffer.concat(contents);
  const digest = hash('sha256', body).slice(0, DIGEST_CHARS);
  await storage.putBytes(bucket, truthKeys.mergedIndex(hour, digest), { body, type: 'application/gzip' });
  await forEachConcurrently(AT_ONCE, files, ({ key }) => removeObject(storage, bucket, key));
}
