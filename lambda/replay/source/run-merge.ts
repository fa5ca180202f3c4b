/** Reads sorted runs of the index back from disk, merged. */
import { type FileHandle, open } from 'node:fs/promises';
import type { IndexEntry } from './types.ts';

/** On disk: time and start as doubles, file, line and length as 32-bit integers, padded to a multiple of 8. */
export const RECORD_BYTES = 32;
/** Entries read at once of each run; 4,096 × 32 bytes × 40 runs (10 million records) are 5 MB. */
const MERGE_BATCH = 4096;

export function writeEntry(bytes: Buffer, at: number, entry: IndexEntry): void {
  bytes.writeDoubleLE(entry.timeMs, at);
  bytes.writeDoubleLE(entry.start, at + 8);
  bytes.writeUInt32LE(entry.file, at + 16);
  bytes.writeUInt32LE(entry.line, at + 20);
  bytes.writeUInt32LE(entry.length, at + 24);
}

/** One run, entry by entry. */
export class RunReader {
  readonly #file: FileHandle;
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  #position = 0;
  current: IndexEntry | undefined;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  static async open(path: string): Promise<RunReader> {
    const reader = new RunReader(await open(path, 'r'));
    await reader.advance();
    return reader;
  }

  async advance(): Promise<void> {
    if (this.#at === this.#bytes.length) {
      const bytes = Buffer.alloc(MERGE_BATCH * RECORD_BYTES);
      const { bytesRead } = await this.#file.read(bytes, 0, bytes.length, this.#position);
      this.#position += bytesRead;
      this.#bytes = bytes.subarray(0, bytesRead);
      this.#at = 0;
      if (bytesRead === 0) {
        this.current = undefined;
        return;
      }
    }
    const bytes = this.#bytes;
    const at = this.#at;
    this.current = {
      timeMs: bytes.readDoubleLE(at),
      start: bytes.readDoubleLE(at + 8),
      file: bytes.readUInt32LE(at + 16),
      line: bytes.readUInt32LE(at + 20),
      length: bytes.readUInt32LE(at + 24),
    };
    this.#at += RECORD_BYTES;
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

const before = (a: IndexEntry, b: IndexEntry): boolean =>
  a.timeMs !== b.timeMs ? a.timeMs < b.timeMs : a.file !== b.file ? a.file < b.file : a.line < b.line;

/** A binary heap of runs by their current entry. */
export class RunHeap {
  readonly #heap: RunReader[] = [];

  constructor(readers: RunReader[]) {
    for (const reader of readers) {
      this.#heap.push(reader);
      this.#up(this.#heap.length - 1);
    }
  }

  get top(): RunReader | undefined {
    return this.#heap[0];
  }

  /** Puts the top in its place after it advanced, or takes it out at its end. */
  settle(): void {
    if (this.#heap[0]?.current === undefined) {
      const last = this.#heap.pop();
      if (last && this.#heap.length > 0) this.#heap[0] = last;
    }
    this.#down(0);
  }

  #less(a: number, b: number): boolean {
    const left = this.#heap[a]?.current;
    const right = this.#heap[b]?.current;
    return left !== undefined && right !== undefined && before(left, right);
  }

  #swap(a: number, b: number): void {
    const held = this.#heap[a] as RunReader;
    this.#heap[a] = this.#heap[b] as RunReader;
    this.#heap[b] = held;
  }

  #up(at: number): void {
    for (let child = at; child > 0; ) {
      const parent = (child - 1) >> 1;
      if (!this.#less(child, parent)) return;
      this.#swap(child, parent);
      child = parent;
    }
  }

  #down(at: number): void {
    for (let parent = at; ; ) {
      const left = 2 * parent + 1;
      let least = parent;
      if (this.#less(left, least)) least = left;
      if (this.#less(left + 1, least)) least = left + 1;
      if (least === parent) return;
      this.#swap(parent, least);
      parent = least;
    }
  }
}
