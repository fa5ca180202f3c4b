/** Adds up the counts of a window of time by group. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { Storage } from '../core/aws/storage.ts';
import type { QualityCell, QualityCounts } from '../core/contract/quality.ts';
import { addTree } from './count-tree.ts';
import { dayOf, readCounts } from './counts-store.ts';
import { hourOf } from './tally.ts';

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
