/**
 * The counts of all runs in the work bucket, by day of the inference. A run writes a small object for each day that it
 * touches. Many small objects of a day are merged into one, a line for each run: not a sum, so that a run that is
 * summarized again replaces its own counts. Of the same run, the object or line that was written last counts.
 */

import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { HOUR_MS } from '../captures/files/capture-path.ts';
import { removeObject } from '../core/aws/remove-object.ts';
import type { Storage } from '../core/aws/storage.ts';
import { notS3, parseStored } from '../core/aws/storage-errors.ts';
import type { QualityCell, QualityCounts } from '../core/contract/quality.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { forEachConcurrently, inOrder } from '../core/process/concurrency.ts';
import { logger } from '../core/process/logging.ts';
import { addTree } from './count-tree.ts';
import { hourOf } from './tally.ts';

const [pack, unpack] = [promisify(gzip), promisify(gunzip)];

/** What a run has done to the counts of a day. */
export interface RunCounts {
  run: string;
  /** When the run was summed up, ISO 8601. */
  at: string;
  /** The hours of the day. */
  hours: QualityCounts;
}

/** Small objects of a day, from which on they are merged. A reader of a month requests at most 30 times as many. */
const MERGE_FROM = 50;
/** Requests in flight. */
const AT_ONCE = 16;
/** Days that are read at the same time. One with a run a minute takes some 15 MB. */
const DAYS_AT_ONCE = 4;
const DIGEST_CHARS = 12;

/** Returns the day of an hour of the counts. */
export const dayOf = (hour: string): string => hour.slice(0, 10);

/**
 * Writes what a run has done, for each day. Repeated, it writes further objects, of which the last ones count.
 *
 * @param days of the run's earlier counts that have none any more
 * @param nowMs when what the counts are made of was read: later ones replace them
 */
export async function writeCounts(
  storage: Storage,
  bucket: string,
  run: string,
  counts: QualityCounts,
  days: readonly string[] = [],
  nowMs = Date.now(),
): Promise<void> {
  const at = new Date(nowMs).toISOString();
  const byDay = Map.groupBy(Object.keys(counts), dayOf);
  for (const day of days) if (!byDay.has(day)) byDay.set(day, []);
  await forEachConcurrently(AT_ONCE, byDay, async ([day, hours]) => {
    const counted: RunCounts = { run, at, hours: Object.fromEntries(hours.map((hour) => [hour, kept(counts[hour])])) };
    const digest = hash('sha256', JSON.stringify(counted)).slice(0, DIGEST_CHARS);
    await storage.putJson(bucket, workKeys.newCounts(day, run, digest), counted);
  });
  // A day is in memory while it is merged, and a backfill may touch a thousand.
  await forEachConcurrently(DAYS_AT_ONCE, byDay.keys(), async (day) => {
    await mergeDay(storage, bucket, day).catch((error: unknown) => {
      // The counts are written. The next run that touches the day merges them.
      logger.warn('The counts of a day could not be merged', { day, error: error as Error });
    });
  });
}

/** Only the detectors need the seconds of an hour. */
const kept = (hour: QualityCounts[string] = {}): QualityCounts[string] =>
  Object.fromEntries(Object.entries(hour).map(([variant, { seconds: _, ...cell }]) => [variant, cell]));

/**
 * Merges the small objects of a day into one if there are many, a line for each run: not a sum, so that a run that is
 * summarized again replaces its own counts. Another run that does so at the same time wins, or loses.
 */
async function mergeDay(storage: Storage, bucket: string, day: string): Promise<void> {
  const keys: string[] = [];
  for await (const { key } of storage.list(bucket, workKeys.newCountsOf(day))) keys.push(key);
  if (keys.length < MERGE_FROM) return;
  const { runs, etag } = await readDay(storage, bucket, day, keys);
  const lines = [...runs.values()].map((one) => `${JSON.stringify(one)}\n`).join('');
  const content = { body: await pack(lines), type: 'application/gzip' };
  if ((await storage.putIf(bucket, workKeys.dayCounts(day), content, etag)) === undefined) return;
  // A key names its content and its time, so each of these is what was read.
  await forEachConcurrently(AT_ONCE, keys, (key) => removeObject(storage, bucket, key));
}

/** Reads a day: the small objects first, since those that another run merges in between are then in the merged one. */
async function readDay(
  storage: Storage,
  bucket: string,
  day: string,
  keys: Iterable<string> | AsyncIterable<string>,
): Promise<{ runs: Map<string, RunCounts>; etag: string | undefined }> {
  const runs = new Map<string, RunCounts>();
  const take = (one: RunCounts): void => {
    const known = runs.get(one.run);
    if (known === undefined || known.at <= one.at) runs.set(one.run, one);
  };
  const read = (key: string) => storage.getJson<RunCounts>(bucket, key);
  for await (const one of inOrder(AT_ONCE, keys, read)) if (one !== undefined) take(one);
  const key = workKeys.dayCounts(day);
  const merged = await storage.getBytes(bucket, key);
  if (merged !== undefined) {
    const where = `s3://${bucket}/${key}`;
    const text = await unpack(merged.bytes).catch(() => {
      throw notS3(`${merged.bytes.length} bytes that are not gzip`, where);
    });
    for (const line of text.toString().split('\n')) if (line !== '') take(parseStored<RunCounts>(line, where));
  }
  return { runs, etag: merged?.etag };
}

/** Returns the days that have counts, in order. The small objects are listed first, as in `readDay`. */
export async function daysWithCounts(storage: Storage, bucket: string): Promise<string[]> {
  const days = new Set<string>();
  const { dayCountsPrefix, newCountsPrefix } = workKeys;
  const nameOf = (key: string, prefix: string): string => dayOf(key.slice(prefix.length));
  const small = storage.list(bucket, newCountsPrefix);
  for (let next = await small.next(); !next.done; ) {
    const day = nameOf(next.value.key, newCountsPrefix);
    days.add(day);
    // Behind every run of the day.
    next = await small.next(`${workKeys.newCountsOf(day)}\uffff`);
  }
  for await (const { key } of storage.list(bucket, dayCountsPrefix)) days.add(nameOf(key, dayCountsPrefix));
  return [...days].toSorted();
}

/** Yields the runs' counts of these days, day by day. A run that touches several days comes once for each. */
export async function* readCounts(
  storage: Storage,
  bucket: string,
  days: Iterable<string>,
): AsyncGenerator<RunCounts & { day: string }> {
  const read = async (day: string) => {
    const keys = storage.list(bucket, workKeys.newCountsOf(day));
    const names = async function* () {
      for await (const { key } of keys) yield key;
    };
    return { day, runs: (await readDay(storage, bucket, day, names())).runs };
  };
  for await (const { day, runs } of inOrder(DAYS_AT_ONCE, days, read))
    for (const one of runs.values()) yield { ...one, day };
}

// ------------------------------------------------------------------------------------------------ sums of a window

/** A window of whole hours, epoch milliseconds: from inclusive, to exclusive. */
export interface TimeWindow {
  fromMs: number;
  toMs: number;
}

/** Returns the instant at which an hour of the counts starts. */
export const hourMs = (hour: string): number => Date.parse(`${hour}:00:00Z`);

const isWithin = (hour: string, { fromMs, toMs }: TimeWindow): boolean => hourMs(hour) >= fromMs && hourMs(hour) < toMs;

/** Reads the counts of a window: the sum over all runs. @param days that have counts */
export async function readWindow(
  storage: Storage,
  bucket: string,
  days: readonly string[],
  window: TimeWindow,
): Promise<QualityCounts> {
  const [first, last] = [dayOf(hourOf(window.fromMs)), dayOf(hourOf(window.toMs - HOUR_MS))];
  const counts: QualityCounts = {};
  const touched = days.filter((day) => day >= first && day <= last);
  for await (const { hours } of readCounts(storage, bucket, touched)) {
    const inside = Object.entries(hours).filter(([hour]) => isWithin(hour, window));
    addTree(counts, Object.fromEntries(inside));
  }
  return counts;
}

/** How the counts are grouped. */
export type GroupBy = 'variant' | 'hour' | 'day';

export interface CountedCell {
  hour: string;
  variant: string;
  cell: QualityCell;
}

export const cellsOf = (counts: QualityCounts): CountedCell[] =>
  Object.keys(counts)
    .toSorted()
    .flatMap((hour) => Object.entries(counts[hour] ?? {}).map(([variant, cell]) => ({ hour, variant, cell })));

/** Returns the name of the group that a cell belongs to; `all` without grouping. */
export function groupOf({ hour, variant }: Pick<CountedCell, 'hour' | 'variant'>, by: GroupBy | undefined): string {
  if (by === 'variant') return variant;
  if (by === 'hour') return hour;
  return by === 'day' ? dayOf(hour) : 'all';
}

export function sumOfCells(cells: readonly CountedCell[]): QualityCell {
  const sum: QualityCell = {};
  for (const { cell } of cells) addTree(sum, cell);
  return sum;
}
