import { type FileHandle, open } from 'node:fs/promises';
import { PermanentError, PipelineError } from '../../shared/errors.ts';
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

const LF = 0x0a;
const CR = 0x0d;
const BOM_BYTES = 3;

/** The record's bytes; `undefined` where the block does not hold them between the ends of two lines. */
function lineIn({ start, bytes }: Block, entry: IndexEntry): Buffer | undefined {
  const from = entry.start - start;
  const end = from + entry.length;
  // A file may begin with a byte order mark, and may end without a line end.
  const begins = from > 0 && (bytes[from - 1] === LF || entry.start === BOM_BYTES);
  const ends = bytes[end] === LF || bytes[end] === CR || end === bytes.length;
  return (begins || entry.start === 0) && from >= 0 && ends ? bytes.subarray(from, end) : undefined;
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

  /**
   * The line's bytes, valid for as long as they are held. At once when they are in memory, else a promise.
   *
   * @throws PipelineError `CaptureChanged`, `CaptureUnreadable`
   */
  read(entry: IndexEntry): Buffer | Promise<Buffer> {
    const block = this.#blocks.get(entry.file);
    // One that ends with the block may go on behind it.
    const held = block && entry.start + entry.length < block.start + block.bytes.length && lineIn(block, entry);
    return held || this.#load(entry);
  }

  /** What could not be opened is not closed either: whoever wanted it has been told. */
  async close(): Promise<void> {
    const handles = await Promise.allSettled(this.#handles.values());
    this.#handles.clear();
    await Promise.allSettled(
      handles.map((handle) => (handle.status === 'fulfilled' ? handle.value.close() : undefined)),
    );
  }

  async #load(entry: IndexEntry): Promise<Buffer> {
    const where = `${this.#files[entry.file]?.name}, line ${entry.line}`;
    // With the ends of the line before it and of its own.
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
    if (!line) throw new PermanentError('CaptureChanged', 'The file was changed while it was replayed', { where });
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
    // Tried again for its next line: it may be that this process had too many files open.
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
