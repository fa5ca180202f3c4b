/**
 * The counts of a day: folded from the files of the ledger, or read from a sum that was kept. A sum is a cache: it names the files and the
 * excluded windows that it is of, is read for the hours that no others touch, and may be deleted at any time.
 */
import { isDeepStrictEqual, promisify } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { gunzip, gzip } from 'node:zlib';
import { DAY_MS, HOUR_MS } from '../captures/files/capture-path.ts';
import type { Work } from '../core/aws/storage.ts';
import type { QualityCounts } from '../core/contract/quality.ts';
import { ledgerKeys } from '../core/contract/work-keys.ts';
import { inOrder } from '../core/process/concurrency.ts';
import { matchesGlob } from '../core/values/glob.ts';
import { jsonIn } from '../core/values/json-in.ts';
import { sum as total } from '../core/values/sum.ts';
import { type ExcludedWindow, firstMet, within } from '../ledger/excluded.ts';
import { getFile, type LedgerFile, listFiles, readListed, touches } from '../ledger/files.ts';
import { arrayBufferOf, fromParquet, type IsWanted } from '../ledger/parquet.ts';
import type { Column, EventColumns, Row } from '../ledger/tables.ts';
import { addHours } from './cell.ts';
import { FOLDED, type FoldedRows, foldRows } from './fold.ts';
import type { Measure } from './objectives.ts';

const [pack, unpack] = [promisify(gzip), promisify(gunzip)];

/** Of files whose rows are in memory at a time: some 15 times as much. */
const MOST_BYTES = 2 * 1024 * 1024;
/** Of a day of more bytes. By default, V8 collects the rows of a slice when those of three more are in memory. */
const LESS_GARBAGE = '--heap-growing-percent=30';
/** Files that are read at the same time. */
const AT_ONCE = 8;

interface DaySum {
  /** The keys of merged files, and of the parts that those have the rows of. */
  files: string[];
  /** The windows that were left out. */
  excluded: readonly ExcludedWindow[];
  hours: QualityCounts;
}

/** Returns the sum that is kept of a day. An object that is no sum is as good as none: the rows are there. */
export async function readSum(work: Work, day: string): Promise<DaySum> {
  const { bytes } = await getFile(work, ledgerKeys.sum(day));
  const text = bytes && (await unpack(bytes).catch(() => ''));
  const { files, excluded, hours } = Object(jsonIn(String(text)));
  return Array.isArray(files) && Array.isArray(excluded) && typeof hours === 'object' && hours !== null
    ? { files, excluded, hours }
    : { files: [], excluded: [], hours: {} };
}

export async function writeSum({ storage, workBucket }: Work, day: string, sum: DaySum): Promise<void> {
  const body = await pack(JSON.stringify(sum));
  await storage.putBytes(workBucket, ledgerKeys.sum(day), { body, type: 'application/gzip' });
}

const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'));

/**
 * Returns the counts of a day.
 *
 * @param files of the day, of all counted tables
 * @param all the excluded windows, also of other days
 * @param isAsked hours that are not asked may be absent
 */
export async function countsOfDay(
  work: Work,
  day: string,
  { files, sum, measures }: { files: readonly LedgerFile[]; sum: DaySum; measures: readonly Measure[] },
  all: readonly ExcludedWindow[],
  isAsked: (hour: string) => boolean = () => true,
): Promise<QualityCounts> {
  const excluded = within(all, { fromMs: Date.parse(day), toMs: Date.parse(day) + DAY_MS });
  const named = new Set(sum.files);
  const open = files.filter(({ key }) => !named.has(key));
  // A part that a sum names is in a merged file.
  const read = files.filter(({ key, isMerged }) => isMerged || !named.has(key));
  const isChanged = (hour: string): boolean => {
    const fromMs = Date.parse(`${hour}:00Z`);
    const [now, then] = [excluded, sum.excluded].map((of) => within(of, { fromMs, toMs: fromMs + HOUR_MS }));
    return !isDeepStrictEqual(now, then);
  };
  const isStale = (hour: string): boolean => isChanged(hour) || open.some((file) => touches(file, hour));
  const stale = HOURS.map((hour) => `${day}T${hour}`).filter(isStale);
  const counts: QualityCounts = {};
  for (const [hour, variants] of Object.entries(sum.hours)) {
    if (isAsked(hour) && !stale.includes(hour)) counts[hour] = variants;
  }
  let bytes = 0;
  for (const { hours, touching } of portions(stale.filter(isAsked), read)) {
    const get = async ({ key, table }: LedgerFile) => ({ ...(await getFile(work, key)), table });
    const isExcluded = await excluderOf(work, day, excluded, hours);
    const stored = await Array.fromAsync(inOrder(AT_ONCE, touching, get));
    const slices = Math.ceil(bytesOf(touching) / MOST_BYTES);
    bytes += bytesOf(touching);
    if (bytes > MOST_BYTES) setFlagsFromString(LESS_GARBAGE);
    for (let slice = 0; slice < slices; slice += 1) {
      const isWanted: IsWanted = (row) => hours.includes(row.hour ?? '') && numberOf(row) % slices === slice;
      addHours(counts, foldRows(await rowsOf(stored, isWanted), { measures, isExcluded }));
    }
  }
  return counts;
}

/** Returns whether a capture of these hours is in a window. Only ids that are kept meet a pattern. */
async function excluderOf(work: Work, day: string, windows: readonly ExcludedWindow[], hours: readonly string[]) {
  const patterns = windows.flatMap(({ inferenceId }) => inferenceId ?? []);
  const ids = new Map<string, string>();
  const listed = patterns.length === 0 ? [] : await Array.fromAsync(listFiles(work, 'ids/people', day, day));
  const touching = listed.filter((file) => hours.some((hour) => touches(file, hour)));
  for await (const rows of readListed(work, 'ids/people', touching, ['hour', 'traceId', 'inferenceId'])) {
    for (const { hour = '', traceId = '', inferenceId = '' } of rows) {
      const isSought = hours.includes(hour) && patterns.some((pattern) => matchesGlob(pattern, inferenceId));
      if (isSought) ids.set(traceId, inferenceId);
    }
  }
  return ({ time: timeMs = Number.NaN, variant, traceId = '' }: Row<'captures'>): boolean =>
    firstMet(windows, { timeMs, variant, inferenceId: ids.get(traceId) }) !== undefined;
}

const bytesOf = (files: readonly LedgerFile[]): number => total(files.map(({ size }) => size));

/** Returns a number that all rows about a line or a trace have in common. */
function numberOf({ traceId, key, start }: EventColumns): number {
  const name = traceId ?? `${key}${start}`;
  let number = 0;
  for (let at = 0; at < name.length; at += 1) number = (Math.imul(31, number) + name.charCodeAt(at)) >>> 0;
  return number;
}

/** Yields hours with the files that touch them: as many as may be in memory at a time, or those of the same files. */
function* portions(hours: readonly string[], files: readonly LedgerFile[]) {
  let portion: { hours: string[]; touching: LedgerFile[] } = { hours: [], touching: [] };
  for (const hour of hours) {
    const touching = files.filter((file) => touches(file, hour));
    const all = [...new Set([...portion.touching, ...touching])];
    if (portion.hours.length > 0 && all.length > portion.touching.length && bytesOf(all) > MOST_BYTES) {
      yield portion;
      portion = { hours: [hour], touching };
    } else portion = { hours: [...portion.hours, hour], touching: all };
  }
  if (portion.hours.length > 0) yield portion;
}

type StoredFile = Awaited<ReturnType<typeof getFile>> & Pick<LedgerFile, 'table'>;

async function rowsOf(files: readonly StoredFile[], isWanted: IsWanted): Promise<FoldedRows> {
  const read = async <T extends keyof FoldedRows, C extends Column<T>>(table: T, only: readonly C[]) => {
    const rows: Pick<Row<T>, C>[] = [];
    for (const { bytes, where, table: own } of files) {
      if (own !== table || bytes === undefined) continue;
      for await (const group of fromParquet(table, arrayBufferOf(bytes), where, only, { isWanted }))
        rows.push(...group);
    }
    return rows;
  };
  return {
    captures: await read('captures', FOLDED.captures),
    verdicts: await read('verdicts', FOLDED.verdicts),
    inferences: await read('inferences', FOLDED.inferences),
  };
}
