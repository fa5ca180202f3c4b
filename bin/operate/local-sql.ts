/** Asks DuckDB on this machine a question about copies of the ledger's files. DuckDB cannot read S3 by itself, with a person's credentials. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { Work } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import { sum } from '../../src/core/values/sum.ts';
import { type LedgerFile, listFiles } from '../../src/ledger/files.ts';
import { columnsOf, PARTITION, rowsTable, sqlViews, typedFor } from '../../src/ledger/sql.ts';
import { TABLE_NAMES } from '../../src/ledger/tables.ts';
import { type SqlResult, sqlFailed, sqlRows } from './athena.ts';

const AT_ONCE = 8;
const BYTES_PER_GB = 1e9;

/**
 * Copies the files since a day (UTC, such as `2026-11-20`), asks, and deletes the copies.
 *
 * @throws PermanentError `DuckDbMissing`, `TooMuchToCopy`, `SqlFailed`
 */
export async function askLocally(work: Work, statement: string, since: string, maxGb: number): Promise<SqlResult> {
  const { DuckDBInstance } = await import('@duckdb/node-api').catch((error: unknown) => {
    const facts = { got: String(error), expected: 'npm install @duckdb/node-api@1.5.6-r.1' };
    throw new PermanentError('DuckDbMissing', '--local needs DuckDB', facts);
  });
  const listed = TABLE_NAMES.map((table) => Array.fromAsync(listFiles(work, table, since)));
  const files = (await Promise.all(listed)).flat();
  const bytes = sum(files.map(({ size }) => size));
  if (bytes > maxGb * BYTES_PER_GB) {
    const got = `${(bytes / BYTES_PER_GB).toFixed(2)} GB since ${since}`;
    const facts = { got, expected: 'a later --from, a larger --max-gb, or no --local' };
    throw new PermanentError('TooMuchToCopy', 'The files of the ledger are larger than --max-gb', facts);
  }
  const folder = await mkdtemp(join(tmpdir(), 'ledger-'));
  try {
    await copyFiles(work, files, folder);
    const connection = await (await DuckDBInstance.create(':memory:')).connect();
    for (const text of viewTexts(files, folder)) await connection.run(text);
    const reader = await connection.runAndReadAll(statement).catch((error: Error) => {
      throw sqlFailed('DuckDB', error.message);
    });
    const names = reader.columnNames();
    const columns = names.map((name, at) => ({ name, type: String(reader.columnType(at)).toLowerCase() }));
    const rows = reader.getRows().map((row) => row.map((value) => (value === null ? undefined : String(value))));
    connection.closeSync();
    return { columns, rows: sqlRows(columns, rows), bytes, usd: 0 };
  } finally {
    await rm(folder, { recursive: true });
  }
}

const copyFiles = ({ storage, workBucket }: Work, files: readonly LedgerFile[], folder: string) =>
  forEachConcurrently(AT_ONCE, files, async ({ table, day, key }) => {
    const stored = await storage.getBytes(workBucket, key);
    // The file was removed a day after its rows were merged. Another file of the listing has its rows.
    if (stored === undefined) return;
    const copies = join(folder, rowsTable(table), `dt=${day}`);
    await mkdir(copies, { recursive: true });
    await writeFile(join(copies, basename(key)), stored.bytes);
  });

/** Returns the statements that make the tables and the views. Also without files, and where files lack columns, all columns are there. */
function viewTexts(files: readonly LedgerFile[], folder: string): string[] {
  const options = 'union_by_name = true, hive_partitioning = true, hive_types = {dt: varchar}';
  const tables = TABLE_NAMES.map((table) => {
    const columns = typedFor('duckdb', { ...columnsOf(table), ...PARTITION });
    const empty = `SELECT ${columns.map(({ name, type }) => `CAST(NULL AS ${type}) AS "${name}"`).join(', ')} WHERE false`;
    const hasFiles = files.some((file) => file.table === table);
    const read = `SELECT * FROM read_parquet('${join(folder, rowsTable(table), '*', '*.parquet')}', ${options})`;
    return `CREATE VIEW ${rowsTable(table)} AS ${empty}${hasFiles ? ` UNION ALL BY NAME ${read}` : ''}`;
  });
  return [...tables, ...Object.entries(sqlViews()).map(([name, { text }]) => `CREATE VIEW ${name} AS ${text}`)];
}
