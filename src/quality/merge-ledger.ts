/**
 * Merges the parts of the ledger, and keeps the sums of the days that it touches. Two merges at once, and a kill between any two requests,
 * leave rows in several files, which readers take once.
 */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { Work } from '../core/aws/storage.ts';
import { ledgerKeys } from '../core/contract/work-keys.ts';
import { inOrder } from '../core/process/concurrency.ts';
import { readExcluded } from '../ledger/excluded.ts';
import { isFirst, type LedgerFile, listFiles, partsOf, readFiles, removeFiles, writeFile } from '../ledger/files.ts';
import { forgetAgain } from '../ledger/forget.ts';
import { addEvent } from '../ledger/precedence.ts';
import { LINE_TABLES, type LineTable, type Row, type Table } from '../ledger/tables.ts';
import { countsOfDay, readSum, writeSum } from './day-sums.ts';
import { COUNTED } from './fold.ts';
import type { Measure } from './objectives.ts';
import { hourOf } from './tally.ts';

/** Rows in memory take some 15 times as much. */
const MOST_BYTES = 6 * 1024 * 1024;
/** A reader that has listed the parts, or a query that runs, finds them for so long. */
const KEPT_MS = 24 * HOUR_MS;
const AT_ONCE = 8;

interface Merge {
  measures: readonly Measure[];
  nowMs: number;
  /** Whether there is time to merge some megabytes. */
  hasTime(): boolean;
  /** Is told each day that could not be merged, such as one with an object that is not Parquet. The others are. */
  skipped(day: string, error: unknown): void;
}

/** Merges what is there, if nobody has done so in this hour. */
export async function mergeHourly(work: Work, merge: Merge): Promise<void> {
  if (await isFirst(work, ledgerKeys.merge(hourOf(merge.nowMs)))) await mergeLedger(work, merge);
}

/** Merges the parts that are older than an hour, of every day. What there is no time for, the next merge takes. */
export async function mergeLedger(work: Work, merge: Merge): Promise<void> {
  await forgetAgain(work, merge.nowMs, merge.hasTime);
  const days = new Map<string, LedgerFile[]>();
  for (const table of LINE_TABLES) {
    for await (const file of listFiles(work, table)) days.set(file.day, [...(days.get(file.day) ?? []), file]);
  }
  for (const [day, files] of days) {
    if (files.every(({ isMerged }) => isMerged)) continue;
    if (!merge.hasTime()) return;
    await mergeDay(work, day, files, merge).catch((error: unknown) => merge.skipped(day, error));
  }
}

async function mergeDay(work: Work, day: string, files: readonly LedgerFile[], merge: Merge): Promise<void> {
  const { measures, nowMs, hasTime } = merge;
  const sum = await readSum(work, day);
  const merged = files.filter(({ isMerged }) => isMerged);
  /** The parts that are in merged files, and since when. */
  const within = new Map<string, number>();
  const read = async ({ key, lastModifiedMs }: LedgerFile) => ({ parts: await partsOf(work, key), lastModifiedMs });
  for await (const { parts, lastModifiedMs } of inOrder(AT_ONCE, merged, read)) {
    for (const key of parts) within.set(key, Math.min(lastModifiedMs, within.get(key) ?? lastModifiedMs));
  }
  const isDue = ({ key, isMerged, lastModifiedMs }: LedgerFile): boolean =>
    !isMerged && !within.has(key) && lastModifiedMs < nowMs - HOUR_MS;
  const all: LedgerFile[] = merged.filter(({ table }) => isCounted(table));
  for (const table of LINE_TABLES) {
    for (const parts of piecesOf(files.filter((file) => file.table === table && isDue(file)))) {
      if (!hasTime()) return;
      const made = await mergeFiles(work, table, day, parts);
      if (made && isCounted(table)) all.push(made);
      for (const { key } of parts) within.set(key, nowMs);
    }
  }
  const named = [...all.map(({ key }) => key), ...within.keys()];
  if (named.some((key) => !sum.files.includes(key))) {
    const excluded = await readExcluded(work);
    const hours = await countsOfDay(work, day, { files: all, sum, measures }, excluded);
    await writeSum(work, day, { files: named, excluded, hours });
  }
  const isOld = ({ key }: LedgerFile): boolean => (within.get(key) ?? nowMs) < nowMs - KEPT_MS;
  const old = files.filter(isOld).map(({ key }) => key);
  await removeFiles(work, old);
}

const isCounted = (table: Table): boolean => COUNTED.some((one) => one === table);

/** Yields files that are merged to one. */
function* piecesOf(files: readonly LedgerFile[]): Generator<LedgerFile[]> {
  let piece: LedgerFile[] = [];
  let bytes = 0;
  for (const file of files) {
    if (bytes + file.size > MOST_BYTES && piece.length > 0) {
      yield piece;
      [piece, bytes] = [[], 0];
    }
    piece.push(file);
    bytes += file.size;
  }
  if (piece.length > 0) yield piece;
}

/** Writes the rows of parts to one file: each event once, by the last attempt that knows it. */
async function mergeFiles<T extends LineTable>(work: Work, table: T, day: string, parts: readonly LedgerFile[]) {
  const events = new Map<string, Row<T>>();
  const keys = parts.map(({ key }) => key);
  for await (const rows of readFiles(work, table, keys)) {
    for (const row of rows) addEvent(events, row);
  }
  return writeFile(work, table, day, [...events.values()], keys);
}
