/**
 * The ledger in SQL: the tables, and the views of which rows count, as `foldRows` of `src/quality` counts them. A view is one text in words that
 * Athena (Trino) and DuckDB both have. Its rows are partitioned by `dt`, so that a condition on `dt` is passed on to the files.
 */
import SQL_TYPES from './sql-types.json' with { type: 'json' };
import { type ColumnType, columnName, TABLES, type Table } from './tables.ts';
import VIEWS from './views.json' with { type: 'json' };

/** The partition of a row, as it stands in the key of its file: a day such as `2026-11-20`. */
export const PARTITION = { dt: 'text' } as const;
/** By the names that they have in SQL. */
type Columns = Readonly<Record<string, ColumnType>>;

/** Returns the name of the table that has every row, also those that do not count. */
export const rowsTable = (table: Table): string => `${table.replaceAll('/', '_')}_rows`;

/** Returns the columns of a table, without the partition. */
export const columnsOf = (table: Table): Columns =>
  Object.fromEntries(Object.entries(TABLES[table]).map(([column, type]) => [columnName(column), type]));

/** Returns names and types as an engine, or Glue, has them. */
export const typedFor = (engine: keyof (typeof SQL_TYPES)['text'], columns: Columns) =>
  Object.entries(columns).map(([name, type]) => ({ name, type: SQL_TYPES[type][engine] }));

const without = (columns: Columns, left: readonly string[]): Columns =>
  Object.fromEntries(Object.entries(columns).filter(([name]) => !left.includes(name)));

/** Names may be words of SQL, such as `end`. */
const quoted = (columns: Columns): string[] => Object.keys(columns).map((name) => `"${name}"`);

/** Returns the views by name, in an order in which each reads only tables and earlier ones. docs/sql.md says what is in them. */
export const sqlViews = (): Record<string, { columns: Columns; text: string }> =>
  Object.fromEntries(
    Object.entries(VIEWS).map(([name, { table, left, made, text }]) => {
      const columns = without({ ...PARTITION, ...columnsOf(table as Table) }, left);
      const lists = { '{columns}': quoted(columns).join(', '), '{own}': quoted(without(columns, made)).join(', ') };
      const filled = text.join('\n').replace(/\{\w+\}/g, (hole) => lists[hole as keyof typeof lists]);
      return [name, { columns, text: filled }];
    }),
  );
