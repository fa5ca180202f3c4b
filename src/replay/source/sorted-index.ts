/** Keeps the places of all records in memory, sorted. */
import { PermanentError } from '../../core/errors/errors.ts';
import type { IndexEntry } from './types.ts';

/** A record needs `ENTRY_BYTES`, and `SORT_BYTES` more where records are out of order, 360 MB for `MAX_RECORDS`. */
export const MAX_RECORDS = 10_000_000;
/** Time and start as doubles, file, line and length as 32-bit integers. */
export const ENTRY_BYTES = 28;
/** Its position in the sorted order, and a second one during the sort. */
export const SORT_BYTES = 8;
/** Entries are kept in blocks of 448 KiB. A single array would need memory for its copy whenever it grows. */
const BLOCK_BITS = 14;
const BLOCK_ENTRIES = 2 ** BLOCK_BITS;
/** Number of entries in a batch. */
const OUTPUT_BATCH = 512;

const newBlock = () => ({
  time: new Float64Array(BLOCK_ENTRIES),
  start: new Float64Array(BLOCK_ENTRIES),
  file: new Uint32Array(BLOCK_ENTRIES),
  line: new Uint32Array(BLOCK_ENTRIES),
  length: new Uint32Array(BLOCK_ENTRIES),
});

/** The records of all files by captured time, then file and line. Entries are added in the order of file and line. */
export class SortedIndex {
  readonly #blocks: ReturnType<typeof newBlock>[] = [];
  readonly #most: number;
  /**
   * `undefined` before the entries are read, and if they are already sorted, as in nearly every single capture file.
   */
  #order: Uint32Array | undefined;
  #inOrder = true;
  /** Number of entries. */
  total = 0;
  firstMs = Number.POSITIVE_INFINITY;
  lastMs = Number.NEGATIVE_INFINITY;

  /** @param most maximum number of entries. */
  constructor(most: number = MAX_RECORDS) {
    this.#most = most;
  }

  /** @throws PermanentError `ReplayTooLarge` */
  add({ timeMs, start, file, line, length }: IndexEntry): void {
    if (this.total === this.#most) {
      throw new PermanentError('ReplayTooLarge', 'The captures have too many records for one replay', {
        got: `more than ${this.#most} records`,
        expected: `${this.#most} at most: a narrower window of time, or fewer files`,
      });
    }
    const at = this.total++ % BLOCK_ENTRIES;
    if (at === 0) this.#blocks.push(newBlock());
    const block = this.#blocks.at(-1) as ReturnType<typeof newBlock>;
    block.time[at] = timeMs;
    block.start[at] = start;
    block.file[at] = file;
    block.line[at] = line;
    block.length[at] = length;
    this.#inOrder &&= timeMs >= this.lastMs;
    this.firstMs = Math.min(this.firstMs, timeMs);
    this.lastMs = Math.max(this.lastMs, timeMs);
  }

  /** Yields all entries in order, in batches. May be called again, but after it no entry may be added. */
  *batches(): Generator<IndexEntry[]> {
    if (!this.#inOrder) this.#order ??= this.#sorted();
    for (let from = 0; from < this.total; from += OUTPUT_BATCH) {
      const count = Math.min(OUTPUT_BATCH, this.total - from);
      yield Array.from({ length: count }, (_, i) => this.#entry(this.#order?.[from + i] ?? from + i));
    }
  }

  #entry(ordinal: number): IndexEntry {
    const { time, start, file, line, length } = this.#blocks[ordinal >> BLOCK_BITS] as ReturnType<typeof newBlock>;
    const at = ordinal % BLOCK_ENTRIES;
    return {
      timeMs: time[at] ?? 0,
      start: start[at] ?? 0,
      file: file[at] ?? 0,
      line: line[at] ?? 0,
      length: length[at] ?? 0,
    };
  }

  /**
   * Merge sort, so that equal times keep the order in which they were added. An array's own `sort` would copy ten million
   * numbers onto the heap twice.
   */
  #sorted(): Uint32Array {
    const count = this.total;
    const timeOf = (ordinal = 0): number => this.#blocks[ordinal >> BLOCK_BITS]?.time[ordinal % BLOCK_ENTRIES] ?? 0;
    let from = Uint32Array.from({ length: count }, (_, i) => i);
    let to = new Uint32Array(count);
    for (let width = 1; width < count; width *= 2) {
      for (let begin = 0; begin < count; begin += 2 * width) {
        const middle = Math.min(count, begin + width);
        const end = Math.min(count, middle + width);
        let left = begin;
        let right = middle;
        for (let i = begin; i < end; i++) {
          const isLeft = right === end || (left < middle && timeOf(from[left]) <= timeOf(from[right]));
          to[i] = from[isLeft ? left++ : right++] ?? 0;
        }
      }
      [from, to] = [to, from];
    }
    return from;
  }
}
