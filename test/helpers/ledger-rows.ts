/** The rows of the ledger. */
import type { Storage } from '../../src/core/aws/storage.ts';
import { listFiles, readFiles } from '../../src/ledger/files.ts';
import { type LedgerRows, LINE_TABLES, type LineTable, type Row } from '../../src/ledger/tables.ts';
import { foldRows } from '../../src/quality/fold.ts';

/** Reads the rows of these runs; by default, of all. */
export async function ledgerRows(storage: Storage, workBucket: string, runs?: readonly string[]): Promise<LedgerRows> {
  const work = { storage, workBucket };
  const read = async <T extends LineTable>(table: T): Promise<Row<T>[]> => {
    const keys = await Array.fromAsync(listFiles(work, table), ({ key }) => key);
    const groups = await Array.fromAsync(readFiles(work, table, keys));
    return groups.flat().filter(({ run = '' }) => runs === undefined || runs.includes(run));
  };
  return Object.fromEntries(await Promise.all(LINE_TABLES.map(async (table) => [table, await read(table)])));
}

/** Returns what these runs count together, or what one did by itself. */
export async function countsOfRuns(storage: Storage, workBucket: string, runs: readonly string[], ofRun = false) {
  return foldRows(await ledgerRows(storage, workBucket, runs), { measures: [], ofRun });
}
