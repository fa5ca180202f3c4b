/**
 * The files of the ledger. A file never changes: a part has the rows of one attempt at a chunk, and a merged file those of many parts. A
 * row may stand in several files, so that a kill between any two requests loses none; readers take each once.
 */
import { hash } from 'node:crypto';
import { removeObject } from '../core/aws/remove-object.ts';
import type { Work } from '../core/aws/storage.ts';
import { ledgerKeys } from '../core/contract/work-keys.ts';
import { forEachConcurrently, inOrder } from '../core/process/concurrency.ts';
import { readForgotten } from './forgotten.ts';
import { arrayBufferOf, fromParquet, partsIn, type Sought, TAIL_BYTES, toParquet } from './parquet.ts';
import { type Column, isOfIds, type LedgerRows, LINE_TABLES, type Row, SOUGHT, type Table } from './tables.ts';

export interface LedgerFile {
  table: Table;
  /** UTC, such as `2026-11-20`. */
  day: string;
  key: string;
  /** The first and the last hour of its rows, such as `2026-11-20T09`. */
  first: string;
  last: string;
  isMerged: boolean;
  size: number;
  lastModifiedMs: number;
}

/** One that S3 has listed. */
export interface ListedFile extends LedgerFile {
  etag: string;
}

const DIGEST_CHARS = 16;
/** Requests in flight. */
const AT_ONCE = 16;
const DAY_CHARS = '2026-11-20'.length;

/** Returns the day of an hour. */
export const dayOf = (hour: string): string => hour.slice(0, DAY_CHARS);

/** Whether a file may have rows of an hour. */
export const touches = ({ first, last }: LedgerFile, hour: string): boolean => first <= hour && hour <= last;

/** Writes rows, a part for each table and day. Captures are written last: a reader that finds one finds its verdicts. */
export async function appendRows(work: Work, rows: Partial<LedgerRows>): Promise<void> {
  for (const table of LINE_TABLES.toReversed()) {
    const byDay = Map.groupBy<string, Row<typeof table>>(rows[table] ?? [], ({ hour = '' }) => dayOf(hour));
    await forEachConcurrently(AT_ONCE, byDay, ([day, own]) => writeFile(work, table, day, own));
  }
}

/**
 * Writes rows, without the ids of traces that are forgotten.
 *
 * @param parts those that a merged file has the rows of
 * @returns the file; `undefined` if there is nothing to write
 */
export async function writeFile<T extends Table>(
  work: Work,
  table: T,
  day: string,
  all: readonly Row<T>[],
  parts: readonly string[] = [],
): Promise<LedgerFile | undefined> {
  const { storage, workBucket } = work;
  const rows = isOfIds(table) ? await keptIds(work, table, all) : all;
  // A merged file also says which parts need not be read.
  if (rows.length === 0 && parts.length === 0) return undefined;
  const body = await toParquet(table, rows, parts);
  const hours = rows.map(({ hour = '' }) => hour).toSorted();
  const [first = `${day}T00`, last = first] = [hours[0], hours.at(-1)];
  const span = `${first.slice(-2)}-${last.slice(-2)}`;
  const names = [table, day, span, hash('sha256', body).slice(0, DIGEST_CHARS)] as const;
  const key = parts.length === 0 ? ledgerKeys.part(...names) : ledgerKeys.merged(...names);
  await storage.putBytes(workBucket, key, { body, type: 'application/vnd.apache.parquet' });
  return { table, day, key, first, last, isMerged: parts.length > 0, size: body.length, lastModifiedMs: Date.now() };
}

/** Returns rows of ids, without those that are forgotten, in the order of the ids, so that of most groups nothing need be read. */
async function keptIds<T extends Table>(work: Work, table: T, rows: readonly Row<T>[]): Promise<readonly Row<T>[]> {
  const list = await readForgotten(work);
  const forgotten = new Set(list.flatMap(({ traces }) => Object.values(traces).flat()));
  const idOf = (row: Row<T>): string => String(row[SOUGHT[table][0] as keyof Row<T>] ?? '');
  return rows.filter(({ traceId = '' }) => !forgotten.has(traceId)).sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
}

const NAME = /dt=(\d{4}-\d\d-\d\d)\/(merged-)?(\d\d)-(\d\d)-\w+(?:\.part)?\.parquet$/;

/** Yields the files of a table, day by day; the parts of a day come first. @param first, last days */
export async function* listFiles(
  { storage, workBucket }: Work,
  table: Table,
  first = '',
  last = '9999-12-31',
): AsyncGenerator<ListedFile> {
  const before = ledgerKeys.day(table, first).slice(0, -1);
  for await (const { key, etag, size, lastModifiedMs } of storage.list(workBucket, ledgerKeys.table(table), before)) {
    const [, day = '', merged, from, to] = NAME.exec(key) ?? [];
    if (day > last) return;
    if (day === '') continue;
    const hours = { first: `${day}T${from}`, last: `${day}T${to}` };
    yield { table, day, key, ...hours, isMerged: merged !== undefined, etag, size, lastModifiedMs };
  }
}

/**
 * Yields the rows of files, a group at a time, with some or all columns.
 *
 * @param gone is told a file that is there no more: its rows are in a merged one, which the caller has listed or lists again
 */
export async function* readFiles<T extends Table, C extends Column<T> = Column<T>>(
  work: Work,
  table: T,
  keys: Iterable<string>,
  only?: readonly C[],
  gone?: (key: string) => void,
): AsyncGenerator<Pick<Row<T>, C>[]> {
  const get = (key: string) => getFile(work, key);
  for await (const { key, bytes, where } of inOrder(AT_ONCE, keys, get)) {
    if (bytes === undefined) gone?.(key);
    else yield* fromParquet(table, arrayBufferOf(bytes), where, only);
  }
}

/** Returns the bytes of a file; none if it is there no more. */
export async function getFile({ storage, workBucket }: Work, key: string) {
  const stored = await storage.getBytes(workBucket, key);
  return { key, bytes: stored?.bytes, where: `s3://${workBucket}/${key}` };
}

/** The names of a file that is there no more, or is another one. */
export const GONE = new Set(['CaptureMissing', 'CaptureChanged']);

/**
 * Yields the rows of files that were listed. Where a merge has removed one since, its rows are in a file that is listed now.
 *
 * @param sought only the rows with these values, for which only parts of the files are read
 * @param read keys of files that have been read
 */
export async function* readListed<T extends Table, C extends Column<T> = Column<T>>(
  work: Work,
  table: T,
  files: Iterable<ListedFile>,
  only?: readonly C[],
  sought?: Sought<T>,
  read = new Set<string>(),
): AsyncGenerator<Pick<Row<T>, C>[]> {
  const unread = new Map([...files].filter(({ key }) => !read.has(key)).map((file) => [file.key, file]));
  const again = new Set<string>();
  for (const key of unread.keys()) read.add(key);
  const gone = (key: string): void => void again.add(unread.get(key)?.day ?? '');
  if (sought === undefined) yield* readFiles(work, table, unread.keys(), only, gone);
  else {
    const search = (file: ListedFile) => searchFile(work, table, file, sought, only, gone);
    for await (const found of inOrder(AT_ONCE, unread.values(), search)) yield* found;
  }
  for (const day of again) {
    yield* readListed(work, table, await Array.fromAsync(listFiles(work, table, day, day)), only, sought, read);
  }
}

/** Returns the rows of a file with one of the values, of which only parts are read. @param gone is told a file that is there no more */
export async function searchFile<T extends Table, C extends Column<T> = Column<T>>(
  work: Work,
  table: T,
  file: ListedFile,
  sought: Sought<T>,
  only?: readonly C[],
  gone?: (key: string) => void,
): Promise<Pick<Row<T>, C>[][]> {
  const where = `s3://${work.workBucket}/${file.key}`;
  const found = Array.fromAsync(fromParquet(table, partsOfFile(work, file), where, only, { sought }));
  return found.catch((error: Error) => {
    if (!GONE.has(error.name)) throw error;
    gone?.(file.key);
    return [];
  });
}

/** Returns a file that reads its end at once, and of the rest what is asked for. */
function partsOfFile({ storage, workBucket: bucket }: Work, { key, etag, size }: ListedFile) {
  const read = async (start: number, end: number): Promise<Buffer> =>
    Buffer.concat(await Array.fromAsync(await storage.read({ bucket, key, etag }, { start, end: end - 1 })));
  const tailStart = Math.max(0, size - TAIL_BYTES);
  let tail: Promise<Buffer> | undefined;
  return {
    byteLength: size,
    slice: async (start: number, end = size): Promise<ArrayBuffer> => {
      tail ??= read(tailStart, size);
      const bytes =
        start < tailStart ? await read(start, end) : (await tail).subarray(start - tailStart, end - tailStart);
      return new Uint8Array(bytes).buffer;
    },
  };
}

/** Replaces people's labels of a day, also by none. */
export async function writeLabels({ storage, workBucket }: Work, day: string, rows: readonly Row<'labels'>[]) {
  const body = await toParquet('labels', rows);
  await storage.putBytes(workBucket, ledgerKeys.labels(day), { body, type: 'application/vnd.apache.parquet' });
}

/** Whether nobody has written an object before: who does so first, does the work that it is named by. */
export async function isFirst({ storage, workBucket }: Work, key: string): Promise<boolean> {
  if ((await storage.head(workBucket, key)) !== undefined) return false;
  return (await storage.putIf(workBucket, key, { body: '', type: 'text/plain' })) !== undefined;
}

/** Returns the parts that a merged file has the rows of. */
export async function partsOf(work: Work, key: string): Promise<string[]> {
  const { bytes, where } = await getFile(work, key);
  return bytes === undefined ? [] : partsIn(bytes, where);
}

/** Deletes files whose rows stand in others. */
export const removeFiles = ({ storage, workBucket }: Work, keys: Iterable<string>): Promise<void> =>
  forEachConcurrently(AT_ONCE, keys, (key) => removeObject(storage, workBucket, key));
