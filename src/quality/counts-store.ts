/** The counts of a window of hours, as all runs together know them. */

import type { Work } from '../core/aws/storage.ts';
import type { QualityCell, QualityCounts } from '../core/contract/quality.ts';
import { inOrder } from '../core/process/concurrency.ts';
import { readExcluded } from '../ledger/excluded.ts';
import { dayOf, listFiles } from '../ledger/files.ts';
import { addCell } from './cell.ts';
import { countsOfDay, readSum } from './day-sums.ts';
import { COUNTED } from './fold.ts';
import type { Measure } from './objectives.ts';
import { hourOf } from './tally.ts';

/** Days that are read at the same time. */
const DAYS_AT_ONCE = 4;

// ------------------------------------------------------------------------------------------------ sums of a window

/** A window of the hours that begin in it, epoch milliseconds: from inclusive, to exclusive. */
export type TimeWindow = Record<'fromMs' | 'toMs', number>;

/** The days until now that tell how an endpoint is, unless a window is named. */
export const DEFAULT_DAYS = 7;

/** Returns the instant at which an hour of the counts starts. */
export const hourMs = (hour: string): number => Date.parse(`${hour}:00:00Z`);

const isWithin = (hour: string, { fromMs, toMs }: TimeWindow): boolean => hourMs(hour) >= fromMs && hourMs(hour) < toMs;

/**
 * Yields the counts of a window, day by day.
 *
 * @param measures of the objectives, which are counted exactly; see `SampleCounts`
 */
export async function* readDays(
  work: Work,
  window: TimeWindow,
  measures: readonly Measure[] = [],
): AsyncGenerator<QualityCounts> {
  const [first, last] = [dayOf(hourOf(window.fromMs)), dayOf(hourOf(window.toMs - 1))];
  const files = await Promise.all(COUNTED.map((table) => Array.fromAsync(listFiles(work, table, first, last))));
  const byDay = Map.groupBy(files.flat(), ({ day }) => day);
  const excluded = await readExcluded(work);
  const read = async (day: string) => {
    const of = { files: byDay.get(day) ?? [], sum: await readSum(work, day), measures };
    return countsOfDay(work, day, of, excluded, (hour) => isWithin(hour, window));
  };
  yield* inOrder(DAYS_AT_ONCE, [...byDay.keys()].toSorted(), read);
}

/** Reads the counts of a window; see `readDays`. */
export const readWindow = async (...of: Parameters<typeof readDays>): Promise<QualityCounts> =>
  Object.assign({}, ...(await Array.fromAsync(readDays(...of))));

/** Returns the first and the last day with captures; `undefined` if there are none. */
export async function countedDays(work: Work): Promise<{ first: string; last: string } | undefined> {
  const all = await Array.fromAsync(listFiles(work, 'captures'), ({ day }) => day);
  const [first, last] = [all[0], all.at(-1)];
  return first && last ? { first, last } : undefined;
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
