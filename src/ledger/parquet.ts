/** Rows as Parquet. The packages are loaded with the first row. */
import type { AsyncBuffer, FileMetaData, ParquetRowRange, SchemaElement } from 'hyparquet';
import { notS3 } from '../core/aws/storage-errors.ts';
import { PipelineError, saidBy } from '../core/errors/errors.ts';
import { type ColumnType, columnName, type Row, SOUGHT, TABLES, type Table } from './tables.ts';

/** A reader skips whole groups, and has one of each column in memory. */
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
  const columns = Object.entries(TABLES[table]) as [keyof Row<T> & string, ColumnType][];
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

/** A file of which parts are read. */
interface Source {
  file: AsyncBuffer;
  /** For messages. */
  where: string;
}

/**
 * Yields the rows of a file, a group at a time. A column that the file does not have is absent.
 *
 * @param only these columns; by default all
 * @throws RetryableError `StorageUnavailable` if the bytes are not Parquet
 */
export async function* fromParquet<T extends Table>(
  table: T,
  bytes: Buffer,
  where: string,
  only?: readonly string[],
): AsyncGenerator<Row<T>[]> {
  const { parquetMetadata } = await import('hyparquet');
  const source = { file: arrayBufferOf(bytes), where };
  const metadata = await orNoParquet(source, async () => parquetMetadata(source.file));
  const ranges: ParquetRowRange[] = [];
  for (let rowStart = 0; rowStart < metadata.num_rows; rowStart += GROUP_ROWS) {
    ranges.push({ rowStart, rowEnd: rowStart + GROUP_ROWS });
  }
  yield* readRanges(table, source, metadata, ranges, only);
}

/** A column, and the values that are wanted there. */
export interface Sought<T extends Table> {
  column: keyof Row<T> & string;
  values: ReadonlySet<string>;
}

/**
 * Yields the rows that have one of the values. Groups without any are not read, as far as their bloom filters and their least and greatest
 * value tell.
 *
 * @throws RetryableError `StorageUnavailable` if the bytes are not Parquet; the errors of the source
 */
export async function* searchParquet<T extends Table>(
  table: T,
  source: Source,
  { column, values }: Sought<T>,
  only?: readonly (keyof Row<T> & string)[],
): AsyncGenerator<Row<T>[]> {
  const { parquetMetadataAsync, parquetScan } = await import('hyparquet');
  const { file } = source;
  const name = columnName(column);
  const { metadata, ranges } = await orNoParquet(source, async () => {
    const metadata = await parquetMetadataAsync(file, { initialFetchSize: TAIL_BYTES });
    const pruningFilter = { [name]: { $in: [...values] } };
    return parquetScan({ file, metadata, columns: [name], pruningFilter, useBloomFilters: true });
  });
  for await (const rows of readRanges(table, source, metadata, ranges, only && [...new Set([...only, column])])) {
    yield rows.filter((row) => values.has(row[column] as string));
  }
}

async function* readRanges<T extends Table>(
  table: T,
  source: Source,
  metadata: FileMetaData,
  ranges: readonly ParquetRowRange[],
  only: readonly string[] = Object.keys(TABLES[table]),
): AsyncGenerator<Row<T>[]> {
  const { parquetRead } = await import('hyparquet');
  const known = new Set(metadata.schema.map(({ name }) => name));
  const columns = only.filter((column) => known.has(columnName(column)));
  const options = { file: source.file, metadata, parsers: PARSERS, columns: columns.map(columnName) };
  for (const range of ranges) {
    const rows: Row<T>[] = [];
    const onComplete = (read: unknown[][]) => void rows.push(...read.map((values) => rowOf<T>(values, columns)));
    await orNoParquet(source, () => parquetRead({ ...options, ...range, onComplete }));
    yield rows;
  }
}

/** @throws RetryableError `StorageUnavailable` unless the storage itself has failed */
async function orNoParquet<V>({ file, where }: Source, read: () => Promise<V>): Promise<V> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof PipelineError) throw error;
    throw notS3(`${file.byteLength} bytes that are not Parquet (${saidBy(error)})`, where);
  }
}

const arrayBufferOf = ({ buffer, byteOffset, length }: Buffer): ArrayBuffer =>
  buffer.slice(byteOffset, byteOffset + length) as ArrayBuffer;

function rowOf<T extends Table>(values: readonly unknown[], columns: readonly string[]): Row<T> {
  const row: Record<string, unknown> = {};
  for (const [at, column] of columns.entries()) {
    const value = values[at];
    if (value !== null && value !== undefined) row[column] = value;
  }
  return row as Row<T>;
}

/** Returns the files that a merged file has the rows of. */
export async function partsIn(bytes: Buffer): Promise<string[]> {
  const { parquetMetadata } = await import('hyparquet');
  const found = parquetMetadata(arrayBufferOf(bytes)).key_value_metadata?.find(({ key }) => key === PARTS);
  return found?.value?.split(' ') ?? [];
}
