/** The requests of a run by their name, in columns: a million of them take about 150 MB. */
import { basename } from 'node:path';
import type { StoredReply } from './replies-file.ts';

const FIRST_ROWS = 1024;

/** The order of two names, which is another one in another locale by `localeCompare`. */
const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** What became of a request. Of one that was cancelled on purpose nothing can be told of the target. */
const OUTCOMES = ['failed', 'ok', 'cancelled'] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** What a request is known by in a run, and where it was captured. */
export interface RequestPlace {
  name: string;
  file: string;
  line: number;
}

/** An event id names its request wherever the captures have been copied to; without one, the place does. */
export const requestName = (eventId: string | undefined, file: string, line: number, pass: string): string =>
  `${eventId ?? `${basename(file)}:${line}`}${pass}`;

export class RequestTable {
  readonly #metrics: number;
  readonly #rows = new Map<string, number>();
  /** Rows whose request has the name of an earlier one. */
  #later: { name: string; row: number }[] = [];
  /** Names that stand for several requests, here or in the other run. */
  #ambiguous: ReadonlySet<string> = new Set();
  #lines = new Uint32Array(FIRST_ROWS);
  /** File of each row, as a number. */
  #files = new Uint32Array(FIRST_ROWS);
  readonly #fileNumbers = new Map<string, number>();
  readonly #fileNames: string[] = [];
  #outcomes = new Uint8Array(FIRST_ROWS);
  #values: Float64Array;
  /** Names of the rows that share a key, by key and file, in their order. */
  readonly #shared = new Map<string, string[]>();
  size = 0;

  /** @param metrics values of a request */
  constructor(metrics: number) {
    this.#metrics = metrics;
    this.#values = new Float64Array(FIRST_ROWS * metrics);
  }

  /** @param values NaN where the request has none */
  add({ name, file, line }: RequestPlace, outcome: Outcome, values: readonly number[]): void {
    const row = this.size++;
    if (row === this.#outcomes.length) this.#grow();
    this.#files[row] = this.#fileNumber(file);
    this.#lines[row] = line;
    this.#outcomes[row] = OUTCOMES.indexOf(outcome);
    this.#values.set(values, row * this.#metrics);
    if (this.#rows.has(name)) this.#later.push({ name, row });
    else this.#rows.set(name, row);
  }

  /**
   * To be called after the last `add` of both: requests that share a name in either run (copies of a file, lines without an
   * event id in files of one name) are told apart by their line, then their file and their order, the same in every run.
   */
  static seal(...tables: readonly RequestTable[]): void {
    const ambiguous = new Set(tables.flatMap((table) => table.#later.map(({ name }) => name)));
    for (const table of tables) table.#seal(ambiguous);
  }

  #seal(ambiguous: ReadonlySet<string>): void {
    this.#ambiguous = ambiguous;
    const groups = new Map<string, number[]>();
    const put = (name: string, row: number): void => {
      const key = `${name}:${this.#lines[row]}`;
      const rows = groups.get(key);
      if (rows) rows.push(row);
      else groups.set(key, [row]);
    };
    for (const name of ambiguous) {
      const row = this.#rows.get(name);
      if (row !== undefined) put(name, row);
      this.#rows.delete(name);
    }
    for (const { name, row } of this.#later) put(name, row);
    for (const [key, rows] of groups) {
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

  /** @param metric its place among the values */
  value(row: number, metric: number): number {
    return this.#values[row * this.#metrics + metric] ?? Number.NaN;
  }

  /** Names and rows, in no order that means anything. */
  entries(): IterableIterator<[string, number]> {
    return this.#rows.entries();
  }

  /** All values of a metric that are there. */
  column(metric: number): Float64Array {
    const values = Float64Array.from({ length: this.size }, (_, row) => this.value(row, metric));
    return values.filter((value) => !Number.isNaN(value));
  }

  /** Names the lines of another file of the same run, given in its order, as the requests are named. */
  namer(): (stored: StoredReply) => string {
    const seen = new Map<string, number>();
    return ({ key: given, event_id, file, line }) => {
      const own = event_id ?? basename(file);
      // What follows the line is the number of the pass.
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
    const files = new Uint32Array(rows);
    files.set(this.#files);
    this.#files = files;
    const lines = new Uint32Array(rows);
    lines.set(this.#lines);
    this.#lines = lines;
    const outcomes = new Uint8Array(rows);
    outcomes.set(this.#outcomes);
    this.#outcomes = outcomes;
    const values = new Float64Array(rows * this.#metrics);
    values.set(this.#values);
    this.#values = values;
  }
}
