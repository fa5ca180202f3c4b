/** The requests of a run by name, stored in columns: a million take about 150 MB. */
import { basename } from 'node:path';
import type { StoredReply } from './replies-file.ts';

const FIRST_ROWS = 1024;

/** Compares two names. `localeCompare` would depend on the locale. */
const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** How a request ended. One that was canceled on purpose says nothing about the target. */
const OUTCOMES = ['failed', 'ok', 'cancelled'] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** The name of a request in a run, and where it was captured. */
export interface RequestPlace {
  name: string;
  file: string;
  line: number;
}

/** Names a request by its event id, which is the same in all copies of the captures, else by its place. */
export const requestName = (eventId: string | undefined, file: string, line: number, pass: string): string =>
  `${eventId ?? `${basename(file)}:${line}`}${pass}`;

/** The requests of one run. Call `add` for each request, then `seal` with the other run's table, then read. */
export class RequestTable {
  readonly #metrics: number;
  readonly #rows = new Map<string, number>();
  /** Rows whose name an earlier row already has. */
  #later: { name: string; row: number }[] = [];
  /** Names that several requests have, in this run or in the other one. */
  #ambiguous: ReadonlySet<string> = new Set();
  #lines = new Uint32Array(FIRST_ROWS);
  /** File number of each row. */
  #files = new Uint32Array(FIRST_ROWS);
  readonly #fileNumbers = new Map<string, number>();
  readonly #fileNames: string[] = [];
  #outcomes = new Uint8Array(FIRST_ROWS);
  #values: Float64Array<ArrayBuffer>;
  #sentAt = new Float64Array(FIRST_ROWS);
  /** Final names of rows that had the same name, by name, line and file, in their order. */
  readonly #shared = new Map<string, string[]>();
  size = 0;

  /** @param metrics number of values per request */
  constructor(metrics: number) {
    this.#metrics = metrics;
    this.#values = new Float64Array(FIRST_ROWS * metrics);
  }

  /** @param values NaN for a missing value. @param sentAt in any unit; by default, requests were sent in the order of the calls */
  add({ name, file, line }: RequestPlace, outcome: Outcome, values: readonly number[], sentAt = this.size): void {
    const row = this.size++;
    if (row === this.#outcomes.length) this.#grow();
    this.#files[row] = this.#fileNumber(file);
    this.#lines[row] = line;
    this.#outcomes[row] = OUTCOMES.indexOf(outcome);
    this.#values.set(values, row * this.#metrics);
    this.#sentAt[row] = sentAt;
    if (this.#rows.has(name)) this.#later.push({ name, row });
    else this.#rows.set(name, row);
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
    this.#ambiguous = ambiguous;
    const renamed = [...this.#later];
    for (const name of ambiguous) {
      const row = this.#rows.get(name);
      if (row !== undefined) renamed.push({ name, row });
      this.#rows.delete(name);
    }
    const groups = Map.groupBy(renamed, ({ name, row }) => `${name}:${this.#lines[row]}`);
    for (const [key, group] of groups) {
      const rows = group.map(({ row }) => row);
      rows.sort((a, b) => byCodeUnits(this.#fileOf(a), this.#fileOf(b)) || a - b);
      for (const [i, row] of rows.entries()) {
        const name = i === 0 ? key : `${key} (${i + 1})`;
        this.#rows.set(name, row);
        const place = `${key}\n${this.#fileOf(row)}`;
        this.#shared.set(place, [...(this.#shared.get(place) ?? []), name]);
      }
    }
    this.#later = [];
  }

  row(key: string): number | undefined {
    return this.#rows.get(key);
  }

  outcome(row: number): Outcome {
    return OUTCOMES[this.#outcomes[row] ?? 0] ?? 'failed';
  }

  /** @param metric index of the value */
  value(row: number, metric: number): number {
    return this.#values[row * this.#metrics + metric] ?? Number.NaN;
  }

  /** Names and rows, in the order in which the requests were sent. */
  entries(): [string, number][] {
    return [...this.#rows].sort(([, a], [, b]) => this.bySending(a, b));
  }

  /** All values of a metric, without the missing ones, in the order in which the requests were sent. */
  column(metric: number): Float64Array {
    return this.#sent()
      .map((row) => this.value(row, metric))
      .filter((value) => !Number.isNaN(value));
  }

  /** 1 for each request that failed, else 0, without those canceled on purpose, in the order in which they were sent. */
  failures(): Float64Array {
    return this.#sent()
      .filter((row) => this.outcome(row) !== 'cancelled')
      .map((row) => Number(this.outcome(row) === 'failed'));
  }

  #sent(): Float64Array {
    return Float64Array.from({ length: this.size }, (_, row) => row).sort((a, b) => this.bySending(a, b));
  }

  /** Returns a function that names the replies of this run as its requests are named. Call it in the file's order. */
  namer(): (stored: StoredReply) => string {
    const seen = new Map<string, number>();
    return ({ key: given, event_id, file, line }) => {
      const own = event_id ?? basename(file);
      // The key ends with the number of the pass.
      const name = requestName(event_id, file, line, given.slice(`${own}:${line}`.length));
      if (!this.#ambiguous.has(name)) return name;
      const key = `${name}:${line}`;
      const place = `${key}\n${file}`;
      const names = this.#shared.get(place);
      if (!names) return key;
      const count = seen.get(place) ?? 0;
      seen.set(place, count + 1);
      return names[Math.min(count, names.length - 1)] ?? key;
    };
  }

  /** Compares two rows by the time of sending. */
  bySending(a: number, b: number): number {
    return (this.#sentAt[a] ?? 0) - (this.#sentAt[b] ?? 0) || a - b;
  }

  #fileOf(row: number): string {
    return this.#fileNames[this.#files[row] ?? 0] ?? '';
  }

  #fileNumber(file: string): number {
    const known = this.#fileNumbers.get(file);
    if (known !== undefined) return known;
    const number = this.#fileNames.push(file) - 1;
    this.#fileNumbers.set(file, number);
    return number;
  }

  #grow(): void {
    const rows = this.#outcomes.length * 2;
    this.#files = new Uint32Array(this.#files.buffer.transfer(rows * Uint32Array.BYTES_PER_ELEMENT));
    this.#lines = new Uint32Array(this.#lines.buffer.transfer(rows * Uint32Array.BYTES_PER_ELEMENT));
    this.#outcomes = new Uint8Array(this.#outcomes.buffer.transfer(rows));
    this.#sentAt = new Float64Array(this.#sentAt.buffer.transfer(rows * Float64Array.BYTES_PER_ELEMENT));
    this.#values = new Float64Array(
      this.#values.buffer.transfer(rows * this.#metrics * Float64Array.BYTES_PER_ELEMENT),
    );
  }
}
