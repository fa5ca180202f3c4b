import { mkdtempSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RECORD_BYTES, RunHeap, RunReader, writeEntry } from './run-merge.ts';
import type { IndexEntry } from './types.ts';

/** An entry in memory: 8 (time) + 8 (start) + 3 × 4 bytes. 256 Ki of them are 7 MiB. */
const RUN_ENTRIES = 256 * 1024;
/** Entries handed on at a time. */
const OUTPUT_BATCH = 512;

interface Columns {
  time: Float64Array;
  start: Float64Array;
  file: Uint32Array;
  line: Uint32Array;
  length: Uint32Array;
}

const columns = (capacity: number): Columns => ({
  time: new Float64Array(capacity),
  start: new Float64Array(capacity),
  file: new Uint32Array(capacity),
  line: new Uint32Array(capacity),
  length: new Uint32Array(capacity),
});

/**
 * The records of all files by captured time, then file and line, in constant memory: full blocks are sorted and written
 * to disk, and merged when they are read. Entries are added in the order of file and line.
 */
export class SortedIndex {
  readonly #runEntries: number;
  #columns: Columns;
  #count = 0;
  #inOrder = true;
  #order: Uint32Array | undefined;
  #directory: string | undefined;
  #runs: { path: string; count: number }[] = [];
  #sealed = false;
  /** Number of entries in all. */
  total = 0;
  firstMs = Number.POSITIVE_INFINITY;
  lastMs = Number.NEGATIVE_INFINITY;

  /** @param runEntries entries that are held in memory. */
  constructor(runEntries: number = RUN_ENTRIES) {
    this.#runEntries = runEntries;
    this.#columns = columns(Math.min(4096, runEntries));
  }

  async add(entry: IndexEntry): Promise<void> {
    if (this.#count === this.#runEntries) await this.#spill();
    if (this.#count === this.#columns.time.length) this.#grow();
    const at = this.#count++;
    const into = this.#columns;
    if (at > 0 && entry.timeMs < (into.time[at - 1] ?? 0)) this.#inOrder = false;
    into.time[at] = entry.timeMs;
    into.start[at] = entry.start;
    into.file[at] = entry.file;
    into.line[at] = entry.line;
    into.length[at] = entry.length;
    this.total++;
    if (entry.timeMs < this.firstMs) this.firstMs = entry.timeMs;
    if (entry.timeMs > this.lastMs) this.lastMs = entry.timeMs;
  }

  /** To be called once, after the last `add`. */
  async seal(): Promise<void> {
    this.#sealed = true;
    if (this.#runs.length > 0 && this.#count > 0) await this.#spill();
    else this.#order = this.#sortedOrder();
  }

  /** All entries in order, in batches. May be called again. */
  async *batches(): AsyncGenerator<IndexEntry[]> {
    if (!this.#sealed) throw new Error('The index is read before it is sealed');
    if (this.#runs.length > 0) yield* this.#merged();
    else yield* this.#inMemory();
  }

  async dispose(): Promise<void> {
    if (this.#directory) await rm(this.#directory, { recursive: true, force: true });
  }

  *#inMemory(): Generator<IndexEntry[]> {
    for (let from = 0; from < this.#count; from += OUTPUT_BATCH) {
      const batch: IndexEntry[] = [];
      for (let i = from; i < Math.min(this.#count, from + OUTPUT_BATCH); i++) {
        batch.push(this.#at(this.#order ? (this.#order[i] ?? 0) : i));
      }
      yield batch;
    }
  }

  #at(i: number): IndexEntry {
    const { time, start, file, line, length } = this.#columns;
    return {
      timeMs: time[i] ?? 0,
      start: start[i] ?? 0,
      file: file[i] ?? 0,
      line: line[i] ?? 0,
      length: length[i] ?? 0,
    };
  }

  /** `undefined` when the entries came in order already, as those of one capture file nearly do. */
  #sortedOrder(): Uint32Array | undefined {
    if (this.#inOrder) return undefined;
    const { time } = this.#columns;
    // They were added by file and line: their number decides between equal times.
    return Uint32Array.from({ length: this.#count }, (_, i) => i).sort(
      (a, b) => (time[a] ?? 0) - (time[b] ?? 0) || a - b,
    );
  }

  #grow(): void {
    const old = this.#columns;
    const grown = columns(Math.min(this.#runEntries, old.time.length * 2));
    for (const key of ['time', 'start', 'file', 'line', 'length'] as const) grown[key].set(old[key]);
    this.#columns = grown;
  }

  async #spill(): Promise<void> {
    this.#directory ??= mkdtempSync(join(tmpdir(), 'replay-index-'));
    const order = this.#sortedOrder();
    const bytes = Buffer.alloc(this.#count * RECORD_BYTES);
    for (let i = 0; i < this.#count; i++) {
      writeEntry(bytes, i * RECORD_BYTES, this.#at(order ? (order[i] ?? 0) : i));
    }
    const path = join(this.#directory, `run-${this.#runs.length}`);
    const file = await open(path, 'w');
    await file.write(bytes);
    await file.close();
    this.#runs.push({ path, count: this.#count });
    this.#count = 0;
    this.#inOrder = true;
  }

  async *#merged(): AsyncGenerator<IndexEntry[]> {
    const readers = await Promise.all(this.#runs.map((run) => RunReader.open(run.path)));
    try {
      const heap = new RunHeap(readers.filter((reader) => reader.current !== undefined));
      let batch: IndexEntry[] = [];
      for (let reader = heap.top; reader?.current; reader = heap.top) {
        batch.push(reader.current);
        await reader.advance();
        heap.settle();
        if (batch.length === OUTPUT_BATCH) {
          yield batch;
          batch = [];
        }
      }
      if (batch.length > 0) yield batch;
    } finally {
      await Promise.all(readers.map((reader) => reader.close()));
    }
  }
}
