/**
 * The counts of all runs in the work bucket, by day of the inference. A run writes a small object for each day that it
 * touches. Many small objects of a day are merged into one, a line for each run, so that a run that is summarized again
 * replaces its own counts. Of the same run, the object or line that was written last counts. Beside it, a day that has ended has
 * the sum of its runs.
 */

import { hash } from 'node:crypto';
import type { Storage } from '../core/aws/storage.ts';
import type { QualityCell, QualityCounts } from '../core/contract/quality.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { forEachConcurrently, inOrder } from '../core/process/concurrency.ts';
import { logger } from '../core/process/logging.ts';
import { addCell, sumHours } from './cell.ts';
import { type CountedDay, closeDays, isClosed, mergeDay, type RunCounts, readHours, runsOf } from './day-objects.ts';
import { hourOf } from './tally.ts';

/** Small objects of a day, from which on they are merged. A reader of a month requests at most 30 times as many. */
const MERGE_FROM = 50;
/** Requests in flight. */
const AT_ONCE = 16;
/** Days that are read at the same time. One with a run a minute takes some 25 MB until it is summed. */
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
  let closes = false;
  await forEachConcurrently(DAYS_AT_ONCE, byDay.keys(), async (day) => {
    const merged = await warned(mergeDay(storage, bucket, day, MERGE_FROM));
    // The first one of a day, or since its last merge, is often enough.
    closes ||= merged?.found === 1 || isClosed(day, nowMs);
  });
  if (closes) await warned(closeDays(storage, bucket, nowMs));
}

/** The counts are written. Later runs merge them. */
const warned = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((error: unknown) => {
    logger.warn('The counts of a day could not be merged', { error: error as Error });
    return undefined;
  });

/** Only the detectors need the seconds of an hour. */
const kept = (hour: QualityCounts[string] = {}): QualityCounts[string] =>
  Object.fromEntries(Object.entries(hour).map(([variant, { seconds: _, ...cell }]) => [variant, cell]));

/** Yields the runs' counts of these days, day by day. A run that touches several days comes once for each. */
export async function* readCounts(
  storage: Storage,
  bucket: string,
  days: Iterable<string>,
): AsyncGenerator<RunCounts & { day: string }> {
  const read = async (day: string) => ({ day, runs: await runsOf(storage, bucket, day) });
  for await (const { day, runs } of inOrder(DAYS_AT_ONCE, days, read)) for (const one of runs) yield { ...one, day };
}

// ------------------------------------------------------------------------------------------------ sums of a window

/** A window of the hours that begin in it, epoch milliseconds: from inclusive, to exclusive. */
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
  days: readonly CountedDay[],
  window: TimeWindow,
): Promise<QualityCounts> {
  const [first, last] = [dayOf(hourOf(window.fromMs)), dayOf(hourOf(window.toMs - 1))];
  const counts: QualityCounts = {};
  const touched = days.filter(({ day }) => day >= first && day <= last);
  const read = (day: CountedDay) => readHours(storage, bucket, day);
  for await (const ofDay of inOrder(DAYS_AT_ONCE, touched, read)) {
    for (const [hour, variants] of Object.entries(sumHours(ofDay))) if (isWithin(hour, window)) counts[hour] = variants;
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

/** Adds cells up. Each hour may have other names, so the sum is bounded as well. */
export function sumOfCells(cells: readonly Pick<CountedCell, 'cell'>[]): QualityCell {
  const sum: QualityCell = {};
  for (const { cell } of cells) addCell(sum, cell);
  return sum;
}
