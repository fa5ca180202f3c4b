/** Appends lines of JSON to a file, in batches. */

import { createWriteStream, type WriteStream } from 'node:fs';
import { rename, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PermanentError } from '../../core/errors/errors.ts';
import type { SkippedLine } from '../source/types.ts';

/** Lines are written in blocks of about this size, because a separate write would cost more than the line itself. */
const FLUSH_CHARACTERS = 64 * 1024;
/** A line is written after this time at the latest, for readers that follow the file. */
const FLUSH_MS = 500;

/** JSON allows these characters in strings, but Python's `splitlines` and Node's readline treat them as line ends. */
const OTHER_LINE_ENDS = /[\u0085\u2028\u2029]/g;
const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;

export class LineWriter {
  readonly path: string;
  readonly #stream: WriteStream;
  #pending = '';
  #timer: NodeJS.Timeout | undefined;
  /** The first error, such as a full disk. No line is written after it. */
  error: Error | undefined;
  /** Bytes of the pieces that are on the disk. */
  #written = 0;
  readonly #onError: ((error: Error) => void) | undefined;

  /** @param onError called when a write fails; `close` throws the error as well */
  constructor(path: string, onError?: (error: Error) => void) {
    this.path = path;
    this.#onError = onError;
    this.#stream = createWriteStream(path);
    this.#stream.on('error', (error) => {
      this.error ??= error;
      this.#pending = '';
      this.#onError?.(error);
    });
  }

  /** @param line without its line ending */
  write(line: string): void {
    if (this.error) return;
    this.#pending += `${line.replace(OTHER_LINE_ENDS, escaped)}\n`;
    if (this.#pending.length >= FLUSH_CHARACTERS) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), FLUSH_MS);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pending === '' || this.error) return;
    const piece = Buffer.from(this.#pending);
    this.#stream.write(piece, (error) => {
      if (!error) this.#written += piece.length;
    });
    this.#pending = '';
  }

  /**
   * Completes the file. If a block does not fit on the disk, the file ends with the last whole line before it.
   *
   * @throws PermanentError `ResultsNotWritten`, for example on a full disk
   */
  async close(): Promise<void> {
    this.flush();
    // A failed stream has already closed, and does not emit the event again.
    if (!this.#stream.closed) {
      await new Promise<void>((resolve) => {
        this.#stream.once('close', resolve);
        this.#stream.end();
      });
    }
    if (!this.error) return;
    await truncate(this.path, this.#written).catch(() => {});
    throw new PermanentError('ResultsNotWritten', this.error.message, { where: this.path }, this.error);
  }
}

// --------------------------------------------------------------------------------------------------------- whole files
// Writes a file atomically: after any failure it exists completely or not at all.

/** @throws PermanentError `ResultsNotWritten`, for example on a full disk */
export async function writeWhole(path: string, text: string): Promise<void> {
  const part = `${path}.part`;
  try {
    await writeFile(part, text);
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw new PermanentError('ResultsNotWritten', (error as Error).message, { where: path }, error);
  }
}

// ------------------------------------------------------------------------------------------------------- skipped lines
// Lines that are not replayed. They are counted by reason and, if there are any, listed in a file with their places.

export const SKIPPED_FILE = 'skipped.jsonl';

export function skippedFile(directory: string, onError?: (error: Error) => void) {
  const reasons = new Map<string, number>();
  const path = join(directory, SKIPPED_FILE);
  let file: LineWriter | undefined;
  return {
    reasons: reasons as ReadonlyMap<string, number>,
    add: (line: SkippedLine): void => {
      reasons.set(line.reason, (reasons.get(line.reason) ?? 0) + 1);
      file ??= new LineWriter(path, onError);
      file.write(JSON.stringify(line));
    },
    /** Completes the file. @returns its path; `undefined` without lines */
    close: async (): Promise<string | undefined> => {
      await file?.close();
      return file?.path;
    },
  };
}
