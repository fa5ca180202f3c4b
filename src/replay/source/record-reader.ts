/** Reads the records of local capture files by their place. */
import { type FileHandle, open } from 'node:fs/promises';
import { PermanentError, PipelineError } from '../../core/errors/errors.ts';
import type { IndexEntry, LineReader, SourceFile } from './types.ts';

/** Bytes read ahead of a record, since its neighbors in the file are likely to be next. */
const BLOCK_BYTES = 64 * 1024;
/** Maximum number of blocks to keep: 128 × 64 KiB are 8 MiB, and cover a second of captures from that many files. */
const MAX_BLOCKS = 128;
/** Maximum number of open files. */
const MAX_FILES = 64;

interface Block {
  start: number;
  bytes: Buffer;
}

const LF = 0x0a;
const CR = 0x0d;
const BOM_BYTES = 3;

/** Returns the record's bytes. `undefined` when the block does not contain them between two line endings. */
function lineIn({ start, bytes }: Block, entry: IndexEntry): Buffer | undefined {
  const from = entry.start - start;
  const end = from + entry.length;
  // A file may begin with a byte order mark, and may lack the last line ending.
  const begins = from > 0 && (bytes[from - 1] === LF || entry.start === BOM_BYTES);
  const ends = bytes[end] === LF || bytes[end] === CR || end === bytes.length;
  return (begins || entry.start === 0) && from >= 0 && ends ? bytes.subarray(from, end) : undefined;
}

/** Reads records by their place, one block at a time. */
export class RecordReader implements LineReader {
  readonly #files: readonly SourceFile[];
  /** The last block read of each file, least recently used first. */
  readonly #blocks = new Map<number, Block>();
  readonly #handles = new Map<number, Promise<FileHandle>>();

  constructor(files: readonly SourceFile[]) {
    this.#files = files;
  }

  /**
   * Returns the line's bytes: directly when they are in memory, else as a promise.
   *
   * @throws PipelineError `CaptureChanged`, `CaptureUnreadable`
   */
  read(entry: IndexEntry): Buffer | Promise<Buffer> {
    const block = this.#blocks.get(entry.file);
    // A line that ends with the block may continue after it.
    const held = block && entry.start + entry.length < block.start + block.bytes.length && lineIn(block, entry);
    return held || this.#load(entry);
  }

  /** Closes all files. A file that failed to open was reported to its reader. */
  async close(): Promise<void> {
    const handles = await Promise.allSettled(this.#handles.values());
    this.#handles.clear();
    await Promise.allSettled(
      handles.map((handle) => (handle.status === 'fulfilled' ? handle.value.close() : undefined)),
    );
  }

  async #load(entry: IndexEntry): Promise<Buffer> {
    const where = `${this.#files[entry.file]?.name}, line ${entry.line}`;
    // Include the ending of the previous line and of this one.
    const start = Math.max(0, entry.start - BOM_BYTES);
    const bytes = Buffer.allocUnsafeSlow(Math.max(BLOCK_BYTES, entry.start - start + entry.length + 1));
    let bytesRead: number;
    try {
      const handle = await this.#handle(entry.file);
      ({ bytesRead } = await handle.read(bytes, 0, bytes.length, start));
    } catch (error) {
      const got = (error as NodeJS.ErrnoException).code;
      throw new PipelineError('CaptureUnreadable', 'The capture file could not be read', { got, where }, error);
    }
    const block = { start, bytes: bytes.subarray(0, bytesRead) };
    const line = entry.start - start + entry.length <= bytesRead ? lineIn(block, entry) : undefined;
    if (!line) throw new PermanentError('CaptureChanged', 'The file changed during the replay', { where });
    this.#blocks.delete(entry.file);
    this.#blocks.set(entry.file, block);
    if (this.#blocks.size > MAX_BLOCKS) this.#blocks.delete(this.#blocks.keys().next().value as number);
    return line;
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
    // Try again for the next line: this process may have had too many open files.
    opened.catch(() => this.#handles.delete(file));
    if (this.#handles.size > MAX_FILES) {
      const oldest = this.#handles.keys().next().value as number;
      const handle = this.#handles.get(oldest);
      this.#handles.delete(oldest);
      await handle?.then((one) => one.close()).catch(() => {});
    }
    return opened;
  }
}
