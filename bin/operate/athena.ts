/** Asks Athena a question about the ledger. */
import { setTimeout as sleep } from 'node:timers/promises';
import { callAws } from '../../src/core/aws/aws-json.ts';
import type { AwsClient } from '../../src/core/aws/aws-post.ts';
import type { StackOutputs } from '../../src/core/contract/names.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';

const POLL_MS = 500;
/** Athena bills at least 10 MB a query, at $5 a TB in most regions. */
const [LEAST_BYTES, USD_PER_BYTE] = [10e6, 5e-12];

/** The output with `--json`. */
export interface SqlResult {
  /** Types in the engine's terms, such as `bigint` or `varchar`. */
  columns: { name: string; type: string }[];
  /** A list is its text, and so is a number that JSON cannot hold. */
  rows: (string | number | boolean | null)[][];
  /** Scanned by Athena, or copied with `--local`. */
  bytes: number;
  /** Athena's price at $5 a TB, in US dollars. Other regions may have another price. */
  usd: number;
}

const NUMBER = /^(?:[a-z]*int|integer|float|real|double|decimal.*)$/;

function sqlValue(type: string, text: string | undefined): SqlResult['rows'][0][0] {
  if (text === undefined) return null;
  if (type === 'boolean') return text === 'true';
  const number = NUMBER.test(type) ? Number(text) : Number.NaN;
  const isExact = Number.isSafeInteger(number) || (Number.isFinite(number) && !Number.isInteger(number));
  return isExact ? number : text;
}

/** Returns the values of rows that an engine gave as texts. */
export const sqlRows = (columns: SqlResult['columns'], rows: (string | undefined)[][]): SqlResult['rows'] =>
  rows.map((row) => row.map((text, at) => sqlValue(columns[at]?.type ?? '', text)));

export const sqlFailed = (engine: string, got: string): PermanentError =>
  new PermanentError('SqlFailed', `${engine} did not answer the statement`, { got, expected: 'SQL as in docs/sql.md' });

type Status = { State: string; StateChangeReason?: string };
type Execution = { Status: Status; Statistics?: { DataScannedInBytes?: number } };
type Metadata = { ColumnInfo: { Name: string; Type: string }[] };
type ResultSet = { Rows: { Data: { VarCharValue?: string }[] }[]; ResultSetMetadata: Metadata };
type ResultPage = { NextToken?: string; ResultSet: ResultSet };

/**
 * Asks, waits, and reads all pages of the result. A signal stops the query.
 *
 * @throws PermanentError `SqlFailed`
 *
 * @example
 *     const { rows } = await askAthena(clients.lambda, outputs, 'SELECT count(*) FROM verdicts', signal);
 */
export async function askAthena(
  client: AwsClient,
  { sqlDatabase: Database, sqlWorkGroup: WorkGroup }: Pick<StackOutputs, 'sqlDatabase' | 'sqlWorkGroup'>,
  QueryString: string,
  signal: AbortSignal,
): Promise<SqlResult> {
  const question = { QueryString, WorkGroup, QueryExecutionContext: { Database } };
  const started = await callAws<{ QueryExecutionId: string }>(client, 'athena', 'StartQueryExecution', question);
  const ask = <T>(operation: string, more = {}) => callAws<T>(client, 'athena', operation, { ...started, ...more });
  const read = async () => (await ask<{ QueryExecution: Execution }>('GetQueryExecution')).QueryExecution;
  let found = await read();
  try {
    for (; ['QUEUED', 'RUNNING'].includes(found.Status.State); found = await read()) {
      await sleep(POLL_MS, undefined, { signal });
    }
  } catch (error) {
    await ask('StopQueryExecution');
    throw error;
  }
  const { State, StateChangeReason = State } = found.Status;
  if (State !== 'SUCCEEDED') throw sqlFailed('Athena', StateChangeReason);
  const { DataScannedInBytes: bytes = 0 } = found.Statistics ?? {};
  const usd = Math.max(bytes, LEAST_BYTES) * USD_PER_BYTE;
  return { ...(await readPages((more) => ask('GetQueryResults', more))), bytes, usd };
}

async function readPages(page: (more: object) => Promise<ResultPage>) {
  let { ResultSet, NextToken } = await page({});
  const columns = ResultSet.ResultSetMetadata.ColumnInfo.map(({ Name: name, Type: type }) => ({ name, type }));
  // The first row of a SELECT has the names.
  const hasHead = columns.every(({ name }, at) => ResultSet.Rows[0]?.Data[at]?.VarCharValue === name);
  const rows = ResultSet.Rows.slice(hasHead ? 1 : 0);
  while (NextToken !== undefined) {
    ({ ResultSet, NextToken } = await page({ NextToken }));
    rows.push(...ResultSet.Rows);
  }
  const texts = rows.map(({ Data }) => Data.map(({ VarCharValue }) => VarCharValue));
  return { columns, rows: sqlRows(columns, texts) };
}
