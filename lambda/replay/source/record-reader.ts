import { type FileHandle, open } from 'node:fs/promises';
import { PermanentError } from '../../common/errors.ts';
import type { IndexEntry, LineReader, SourceFile } from './types.ts';

/** Read ahead of a record: its neighbours in the file are likely to be next. */
const BLOCK_BYTES = 64 * 1024;
/** Blocks that are kept; 128 × 64 KiB are 8 MiB, and cover a second of captures from that many files. */
const MAX_BLOCKS = 128;
/** Files that are kept open. */
const MAX_FILES = 64;

interface Block {
  start: number;
  bytes: Buffer;
}

/** Reads records by their place, a block at a time. */
export class RecordReader implements LineReader {
  readonly #files: readonly SourceFile[];
  /** The last block read of each file, least recently used first. */
  readonly #blocks = new Map<number, Block>();
  readonly #handles = new Map<number, Promise<FileHandle>>();

  constructor(files: readonly SourceFile[]) {
    this.#files = files;
  }

  /** The line's bytes, valid for as long as they are held. At once when they are in memory, else a promise. */
  read(entry: IndexEntry): Buffer | Promise<Buffer> {
    const block = this.#blocks.get(entry.file);
    if (block) {
      const from = entry.start - block.start;
      if (from >= 0 && from + entry.length <= block.bytes.length) {
        return block.bytes.subarray(from, from + entry.length);
      }
    }
    return this.#load(entry);
  }

  async close(): Promise<void> {
    const handles = await Promise.all(this.#handles.values());
    this.#handles.clear();
    await Promise.all(handles.map((handle) => handle.close()));
  }

  async #load(entry: IndexEntry): Promise<Buffer> {
    const handle = await this.#handle(entry.file);
    const bytes = Buffer.allocUnsafeSlow(Math.max(BLOCK_BYTES, entry.length));
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, entry.start);
    if (bytesRead < entry.length) {
      const where = `${this.#files[entry.file]?.name}, line ${entry.line}`;
      throw new PermanentError('CaptureChanged', 'The file was cut short while it was replayed', { where });
    }
    this.#blocks.delete(entry.file);
    this.#blocks.set(entry.file, { start: entry.start, bytes: bytes.subarray(0, bytesRead) });
    if (this.#blocks.size > MAX_BLOCKS) this.#blocks.delete(this.#blocks.keys().next().value as number);
    return bytes.subarray(0, entry.length);
  }

  async #handle(file: number): Promise<FileHandle> {
    const known = this.#handles.get(file);
    if (known) {
      this.#handles.delete(file);
      this.#handles.set(file, known);
      return known;
    }
    const opened = open(this.#files[file]?.path ?? '', 'r');
    this.#handles.set(file, opened);
    if (this.#handles.size > MAX_FILES) {
      const oldest = this.#handles.keys().next().value as number;
      const handle = this.#handles.get(oldest);
      this.#handles.delete(oldest);
      await (await handle)?.close();
    }
    return opened;
  }
}
