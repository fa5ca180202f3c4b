/** The requests of a run by name, stored in columns: a million take about 150 MB. */
import { basename } from 'node:path';
import type { PreparedRequest } from '../request/preparer.ts';

/** Compares two names. `localeCompare` would depend on the locale. */
const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** How a request ended. A request that was canceled on purpose provides no evidence about the target. */
export type Outcome = 'failed' | 'ok' | 'cancelled';

/** Where a request was captured. */
type RequestPlace = Pick<PreparedRequest, 'eventId' | 'file' | 'line' | 'pass'>;

/** Names a request by its event id, which is the same in all copies of the captures, else by its place. */
const nameOf = ({ eventId, file, line, pass }: RequestPlace): string =>
  `${eventId ?? `${basename(file)}:${line}`}${pass === 0 ? '' : `#${pass}`}`;

/** The requests of one run. Call `add` for each request, then `seal` with the other run's table, then read. */
export class RequestTable {
  readonly #rows = new Map<string, number>();
  /** Rows with a name that an earlier row already has. */
  readonly #later: { name: string; row: number }[] = [];
  readonly #lines: number[] = [];
  readonly #files: string[] = [];
  /** The files once each: every record has a copy of its own. */
  readonly #fileNames = new Map<string, string>();
  readonly #outcomes: Outcome[] = [];
  /** Values of each row, indexed by metric. */
  readonly #values: number[][];
  readonly #sentAt: number[] = [];

  /** @param metrics number of values per request */
  constructor(metrics: number) {
    this.#values = Array.from({ length: metrics }, () => []);
  }

  get size(): number {
    return this.#outcomes.length;
  }

  /** Adds the next row. @param values NaN for a missing value. @param sentAt in any unit */
  add(place: RequestPlace, outcome: Outcome, values: readonly number[], sentAt: number): void {
    const row = this.size;
    const name = nameOf(place);
    const { file, line } = place;
    if (this.#rows.has(name)) this.#later.push({ name, row });
    else this.#rows.set(name, row);
    if (!this.#fileNames.has(file)) this.#fileNames.set(file, file);
    this.#files.push(this.#fileNames.get(file) ?? file);
    this.#lines.push(line);
    this.#outcomes.push(outcome);
    for (const [metric, column] of this.#values.entries()) column.push(values[metric] ?? Number.NaN);
    this.#sentAt.push(sentAt);
  }

  /**
   * Renames requests that share a name in either run, such as copies of a file, or lines without an event id in files of the
   * same name. They are distinguished by line, then by file and order, in the same way in all runs.
   */
  static seal(...tables: readonly RequestTable[]): void {
    const ambiguous = new Set(tables.flatMap((table) => table.#later.map(({ name }) => name)));
    for (const table of tables) table.#seal(ambiguous);
  }

  #seal(ambiguous: ReadonlySet<string>): void {
    const renamed = this.#later.splice(0);
    for (const name of ambiguous) {
      const row = this.#rows.get(name);
      if (row !== undefined) renamed.push({ name, row });
      this.#rows.delete(name);
    }
    const fileOf = (row: number): string => this.#files[row] ?? '';
    for (const [key, group] of Map.groupBy(renamed, ({ name, row }) => `${name}:${this.#lines[row]}`)) {
      group.sort((a, b) => byCodeUnits(fileOf(a.row), fileOf(b.row)) || a.row - b.row);
      for (const [i, { row }] of group.entries()) this.#rows.set(i === 0 ? key : `${key} (${i + 1})`, row);
    }
  }

  row(key: string): number | undefined {
    return this.#rows.get(key);
  }

  outcome(row: number): Outcome {
    return this.#outcomes[row] ?? 'failed';
  }

  /** @param metric index of the value */
  value(row: number, metric: number): number {
    return this.#values[metric]?.[row] ?? Number.NaN;
  }

  /** Names and rows, in the order in which the requests were sent. */
  entries(): [string, number][] {
    return [...this.#rows].sort(([, a], [, b]) => this.bySending(a, b));
  }

  /** Whether a request that succeeded has a value of the metric. */
  isMeasured(metric: number): boolean {
    return this.column(metric).length > 0;
  }

  /** The values of a metric of the requests that succeeded. */
  column(metric: number): number[] {
    const values = this.#values[metric] ?? [];
    return values.filter((value, row) => this.outcome(row) === 'ok' && !Number.isNaN(value));
  }

  /** Whether the request of the row was captured there. */
  isAt(row: number, { file, line }: Pick<RequestPlace, 'file' | 'line'>): boolean {
    return this.#files[row] === file && this.#lines[row] === line;
  }

  /** Compares two rows by the time of sending. */
  bySending(a: number, b: number): number {
    return (this.#sentAt[a] ?? 0) - (this.#sentAt[b] ?? 0) || a - b;
  }
}
