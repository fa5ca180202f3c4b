/**
 * The counts of a day: folded from the files of the ledger, or read from a sum that was kept. A sum is a cache: it names the files that it is
 * of, is read for the hours that no other file touches, and may be deleted at any time.
 */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { Work } from '../core/aws/storage.ts';
import { notS3, parseStored } from '../core/aws/storage-errors.ts';
import type { QualityCounts } from '../core/contract/quality.ts';
import { ledgerKeys } from '../core/contract/work-keys.ts';
import { sum as total } from '../core/values/sum.ts';
import { type LedgerFile, readFiles, touches } from '../ledger/files.ts';
import type { Row } from '../ledger/tables.ts';
import { FOLDED, type FoldedRows, foldRows } from './fold.ts';
import type { Measure } from './objectives.ts';

const [pack, unpack] = [promisify(gzip), promisify(gunzip)];

/** Files whose rows are in memory at a time: some 15 times as much. */
const MOST_BYTES = 6 * 1024 * 1024;

interface DaySum {
  /** The keys of merged files, and of the parts that those have the rows of. */
  files: string[];
  hours: QualityCounts;
}

export async function readSum({ storage, workBucket }: Work, day: string): Promise<DaySum> {
  const key = ledgerKeys.sum(day);
  const stored = await storage.getBytes(workBucket, key);
  if (stored === undefined) return { files: [], hours: {} };
  const where = `s3://${workBucket}/${key}`;
  const text = await unpack(stored.bytes).catch(() => {
    throw notS3(`${stored.bytes.length} bytes that are not gzip`, where);
  });
  return parseStored<DaySum>(text.toString(), where);
}

export async function writeSum({ storage, workBucket }: Work, day: string, sum: DaySum): Promise<void> {
  const body = await pack(JSON.stringify(sum));
  await storage.putBytes(workBucket, ledgerKeys.sum(day), { body, type: 'application/gzip' });
}

const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'));

/**
 * Returns the counts of a day.
 *
 * @param files of the day, of all tables
 * @param isAsked hours that are not asked may be absent
 */
export async function countsOfDay(
  work: Work,
  day: string,
  { files, sum, measures }: { files: readonly LedgerFile[]; sum: DaySum; measures: readonly Measure[] },
  isAsked: (hour: string) => boolean = () => true,
): Promise<QualityCounts> {
  const named = new Set(sum.files);
  const open = files.filter(({ key }) => !named.has(key));
  // A part that a sum names is in a merged file.
  const read = files.filter(({ key, isMerged }) => isMerged || !named.has(key));
  const stale = HOURS.map((hour) => `${day}T${hour}`).filter((hour) => open.some((file) => touches(file, hour)));
  const counts: QualityCounts = {};
  for (const [hour, variants] of Object.entries(sum.hours)) {
    if (isAsked(hour) && !stale.includes(hour)) counts[hour] = variants;
  }
  for (const { hours, touching } of portions(stale.filter(isAsked), read)) {
    Object.assign(counts, foldRows(await rowsOf(work, touching, hours), { measures }));
  }
  return counts;
}

/** Yields hours, as many as may be in memory at a time, with the files that touch them. */
function* portions(hours: readonly string[], files: readonly LedgerFile[]) {
  let portion: { hours: string[]; touching: LedgerFile[] } = { hours: [], touching: [] };
  for (const hour of hours) {
    const touching = files.filter((file) => touches(file, hour));
    const all = [...new Set([...portion.touching, ...touching])];
    if (portion.hours.length > 0 && total(all.map(({ size }) => size)) > MOST_BYTES) {
      yield portion;
      portion = { hours: [hour], touching };
    } else portion = { hours: [...portion.hours, hour], touching: all };
  }
  if (portion.hours.length > 0) yield portion;
}

async function rowsOf(work: Work, files: readonly LedgerFile[], hours: readonly string[]): Promise<FoldedRows> {
  const wanted = new Set<string | undefined>(hours);
  const read = async <T extends keyof FoldedRows>(table: T, only: (keyof Row<T> & string)[]): Promise<Row<T>[]> => {
    const keys = files.filter((file) => file.table === table).map(({ key }) => key);
    const rows: Row<T>[] = [];
    for await (const group of readFiles(work, table, keys, only)) {
      for (const row of group) if (wanted.has(row.hour)) rows.push(row);
    }
    return rows;
  };
  const [captures, verdicts, inferences] = await Promise.all([
    read('captures', FOLDED.captures),
    read('verdicts', FOLDED.verdicts),
    read('inferences', FOLDED.inferences),
  ]);
  return { captures, verdicts, inferences };
}
