/** Rows as Parquet. The packages are loaded with the first row. */
import type { AsyncBuffer, SchemaElement } from 'hyparquet';
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

/** A column, and the values that are wanted there. */
export interface Sought<T extends Table> {
  column: keyof Row<T> & string;
  values: ReadonlySet<string>;
}

/**
 * Yields the rows of a file, a group at a time. A column that the file does not have is absent.
 *
 * @param where for messages
 * @param only these columns; by default all
 * @param sought only the rows with one of the values: groups without any are not read, as far as their bloom filters and their least and
 *   greatest value tell
 * @throws RetryableError `StorageUnavailable` if the bytes are not Parquet; the errors of the file
 */
export async function* fromParquet<T extends Table>(
  table: T,
  file: AsyncBuffer,
  where: string,
  only: readonly string[] = Object.keys(TABLES[table]),
  sought?: Sought<T>,
): AsyncGenerator<Row<T>[]> {
  const { parquetMetadataAsync, parquetRead, parquetScan } = await import('hyparquet');
  try {
    const metadata = await parquetMetadataAsync(file, { initialFetchSize: TAIL_BYTES });
    const known = new Set(metadata.schema.map(({ name }) => name));
    const wanted = new Set(sought ? [...only, sought.column] : only);
    const columns = [...wanted].filter((column) => known.has(columnName(column)));
    const options = { file, metadata, parsers: PARSERS, columns: columns.map(columnName) };
    const pruningFilter = sought && { [columnName(sought.column)]: { $in: [...sought.values] } };
    const { ranges } = await parquetScan({
      ...options,
      useBloomFilters: true,
      ...(pruningFilter && { pruningFilter }),
    });
    for (const range of ranges) {
      const rows: Row<T>[] = [];
      const onComplete = (read: unknown[][]) => void rows.push(...read.map((values) => rowOf<T>(values, columns)));
      await parquetRead({ ...options, ...range, onComplete });
      yield sought ? rows.filter((row) => sought.values.has(row[sought.column] as string)) : rows;
    }
  } catch (error) {
    if (error instanceof PipelineError) throw error;
    throw notS3(`${file.byteLength} bytes that are not Parquet (${saidBy(error)})`, where);
  }
}

/** Returns bytes as a file that is read. */
export const arrayBufferOf = ({ buffer, byteOffset, length }: Buffer): ArrayBuffer =>
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
