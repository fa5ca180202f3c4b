/** Rows as Parquet. The packages are loaded with the first row. */
import type { AsyncBuffer, ColumnData, FileMetaData, ParquetRowRange, SchemaElement } from 'hyparquet';
import { notS3 } from '../core/aws/storage-errors.ts';
import { PipelineError, saidBy } from '../core/errors/errors.ts';
import { batches } from '../core/values/batches.ts';
import {
  type Column,
  type ColumnType,
  columnName,
  type EventColumns,
  type Row,
  SOUGHT,
  TABLES,
  type Table,
} from './tables.ts';

/** A reader skips whole groups, and has one of a column in memory. */
const GROUP_ROWS = 4_000;
/** Bytes at the end of a file that are read first: its metadata, and most of its bloom filters. */
export const TAIL_BYTES = 128 * 1024;
/** Of the least and the greatest value of a group: ids of people may begin alike. */
const STATISTIC_BYTES = 64;
const PARTS = 'parts';

type Element = Pick<SchemaElement, 'type' | 'converted_type'>;
const TEXT: Element = { type: 'BYTE_ARRAY', converted_type: 'UTF8' };
/** Of each type, its element; a list of it has the name in the plural. */
const ELEMENTS: Record<Exclude<ColumnType, keyof typeof LISTS>, Element> = {
  text: TEXT,
  int: { type: 'INT32' },
  long: { type: 'INT64' },
  number: { type: 'DOUBLE' },
  flag: { type: 'BOOLEAN' },
  time: { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' },
};
const LISTS = { texts: 'text', cells: 'text', ints: 'int', numbers: 'number' } as const;

function schemaOf(name: string, type: ColumnType): SchemaElement[] {
  if (!Object.hasOwn(LISTS, type))
    return [{ name, ...ELEMENTS[type as keyof typeof ELEMENTS], repetition_type: 'OPTIONAL' }];
  const element = ELEMENTS[LISTS[type as keyof typeof LISTS]];
  return [
    { name, converted_type: 'LIST', num_children: 1, repetition_type: 'OPTIONAL' },
    { name: 'list', num_children: 1, repetition_type: 'REPEATED' },
    { name: 'element', ...element, repetition_type: 'OPTIONAL' },
  ];
}

/** @param parts the files that a merged one has the rows of */
export async function toParquet<T extends Table>(
  table: T,
  rows: readonly Row<T>[],
  parts: readonly string[] = [],
): Promise<Buffer> {
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  const columns = Object.entries(TABLES[table]) as [Column<T> & string, ColumnType][];
  const cellOf = (row: Row<T>, column: keyof Row<T>, type: ColumnType): unknown => {
    const value = row[column] as unknown;
    return type === 'time' && value !== undefined ? new Date(value as number) : value;
  };
  const buffer = parquetWriteBuffer({
    schema: [
      { name: 'root', num_children: columns.length },
      ...columns.flatMap(([column, type]) => schemaOf(columnName(column), type)),
    ],
    columnData: columns.map(([column, type]) => ({
      name: columnName(column),
      data: rows.map((row) => cellOf(row, column, type)),
      bloomFilter: SOUGHT[table].includes(column),
    })),
    rowGroupSize: GROUP_ROWS,
    statisticsTruncateLength: STATISTIC_BYTES,
    kvMetadata: parts.length === 0 ? [] : [{ key: PARTS, value: parts.join(' ') }],
  });
  return Buffer.from(buffer);
}

/** Numbers for times, and texts as they are. */
const PARSERS = { timestampFromMilliseconds: Number };

/** A column, and the values that are wanted there. */
export interface Sought<T extends Table> {
  column: Column<T> & string;
  values: ReadonlySet<string>;
}

/** The columns that tell which rows are wanted. */
const ASKED = ['hour', 'traceId', 'key', 'start'] as const;
export type IsWanted = (row: Pick<EventColumns, (typeof ASKED)[number]>) => boolean;

/**
 * Yields the rows of a file, a group at a time. A column that the file does not have is absent.
 *
 * @param where for messages
 * @param only these columns; by default all
 * @param sought only the rows with one of the values: groups without any are not read, as far as their bloom filters and their least and
 *   greatest value tell
 * @throws RetryableError `StorageUnavailable` if the bytes are not Parquet; the errors of the file
 */
export async function* fromParquet<T extends Table, C extends Column<T> = Column<T>>(
  table: T,
  file: AsyncBuffer,
  where: string,
  only = Object.keys(TABLES[table]) as unknown as readonly C[],
  { sought, isWanted }: { sought?: Sought<T> | undefined; isWanted?: IsWanted } = {},
): AsyncGenerator<Pick<Row<T>, C>[]> {
  const { parquetMetadataAsync, parquetScan } = await import('hyparquet');
  // Copied for each row: this takes less time and memory than to add columns one by one.
  const empty: ReadRow = Object.fromEntries(only.map((column) => [column, undefined]));
  const asked: string[] = [...(isWanted ? ASKED : []), ...(sought ? [sought.column] : [])];
  const others = only.map(String).filter((column) => !asked.includes(column));
  const isAsked = (row: ReadRow): boolean =>
    (isWanted === undefined || isWanted(row)) && (!sought || sought.values.has(row[sought.column] as string));
  try {
    const metadata = await parquetMetadataAsync(file, { initialFetchSize: TAIL_BYTES });
    const pruningFilter = sought && { [columnName(sought.column)]: { $in: [...sought.values] } };
    const columns = namesIn(metadata, asked);
    const { ranges } = await parquetScan({
      ...{ file, metadata, columns, useBloomFilters: true },
      ...(pruningFilter && { pruningFilter }),
    });
    for (const group of groupsIn(ranges)) {
      const all = Array.from({ length: group.rowEnd - group.rowStart }, () => ({ ...empty }));
      await readColumns({ file, metadata, ...group }, asked, all);
      const rows = all.map((row) => (isAsked(row) ? row : undefined));
      const wanted = rows.filter((row) => row !== undefined);
      if (wanted.length > 0) await readColumns({ file, metadata, ...group }, others, rows);
      yield wanted as Pick<Row<T>, C>[];
    }
  } catch (error) {
    if (error instanceof PipelineError) throw error;
    throw notParquet(file.byteLength, where, error);
  }
}

const notParquet = (bytes: number, where: string, error: unknown) =>
  notS3(`${bytes} bytes that are not Parquet (${saidBy(error)})`, where);

function* groupsIn(ranges: readonly ParquetRowRange[]): Generator<ParquetRowRange> {
  for (const { rowStart: first, rowEnd: end } of ranges) {
    for (let rowStart = first; rowStart < end; ) {
      // A group of the file ends at a multiple of its rows.
      const rowEnd = Math.min(end, (Math.floor(rowStart / GROUP_ROWS) + 1) * GROUP_ROWS);
      yield { rowStart, rowEnd };
      rowStart = rowEnd;
    }
  }
}

const namesIn = ({ schema }: FileMetaData, columns: readonly string[]): string[] => {
  const names = new Set(columns.map(columnName));
  return schema.flatMap(({ name }) => (names.has(name) ? [name] : []));
};

type ReadRow = Record<string, unknown>;

/** From so many rows on, columns are read one by one: all of them at once would outlive V8's young generation. */
const MANY_ROWS = 500;

async function readColumns(
  group: ParquetRowRange & { file: AsyncBuffer; metadata: FileMetaData },
  columns: readonly string[],
  rows: readonly (ReadRow | undefined)[],
): Promise<void> {
  const { parquetRead } = await import('hyparquet');
  const { file, metadata, rowStart, rowEnd } = group;
  const names = new Map(columns.map((column) => [columnName(column), column]));
  const known = namesIn(metadata, columns);
  const onChunk = ({ columnName: name, columnData, rowStart: first }: ColumnData) => {
    const column = names.get(name) ?? '';
    for (let at = 0; at < columnData.length; at += 1) {
      const [row, value] = [rows[first - rowStart + at], columnData[at]];
      if (row !== undefined && value !== null) row[column] = value;
    }
  };
  for (const some of batches(known, rows.length < MANY_ROWS ? known.length : 1)) {
    await parquetRead({ file, metadata, rowStart, rowEnd, parsers: PARSERS, columns: some, onChunk });
  }
}

/** Returns bytes as a file that is read. */
export const arrayBufferOf = ({ buffer, byteOffset, length }: Buffer): ArrayBuffer =>
  (length === buffer.byteLength ? buffer : buffer.slice(byteOffset, byteOffset + length)) as ArrayBuffer;

/** Returns the files that a merged file has the rows of. @throws RetryableError `StorageUnavailable` if the bytes are not Parquet */
export async function partsIn(bytes: Buffer, where: string): Promise<string[]> {
  const { parquetMetadata } = await import('hyparquet');
  try {
    const { key_value_metadata: stored } = parquetMetadata(arrayBufferOf(bytes));
    return stored?.find(({ key }) => key === PARTS)?.value?.split(' ') ?? [];
  } catch (error) {
    throw notParquet(bytes.length, where, error);
  }
}
