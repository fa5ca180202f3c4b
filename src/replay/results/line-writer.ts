import { createWriteStream, type WriteStream } from 'node:fs';
import { PermanentError } from '../../shared/errors.ts';

/** Lines are handed to the file in pieces of about this size: a write for each would cost more than the line. */
const FLUSH_CHARACTERS = 64 * 1024;
/** A line is in the file after this at the latest, for those who follow it. */
const FLUSH_MS = 500;

/** Line ends to Python's `splitlines` and to Node's readline; JSON lets them stand in its strings as they are. */
const OTHER_LINE_ENDS = /[\u0085\u2028\u2029]/;
const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** Appends lines of JSON to a file, in batches. */
export class LineWriter {
  readonly path: string;
  readonly #stream: WriteStream;
  #pending = '';
  #timer: NodeJS.Timeout | undefined;
  #error: Error | undefined;
  readonly #onError: ((error: Error) => void) | undefined;
  lines = 0;

  /** @param onError called when a write fails; `close` throws it all the same */
  constructor(path: string, onError?: (error: Error) => void) {
    this.path = path;
    this.#onError = onError;
    this.#stream = createWriteStream(path);
    this.#stream.on('error', (error) => {
      this.#error ??= error;
      this.#pending = '';
      this.#onError?.(error);
    });
  }

  /** Why the file is not what it should be, such as a full disk; nothing more is written to it then. */
  get error(): Error | undefined {
    return this.#error;
  }

  /** @param line without its line ending */
  write(line: string): void {
    this.lines++;
    if (this.#error) return;
    this.#pending += OTHER_LINE_ENDS.test(line)
      ? `${line.replace(new RegExp(OTHER_LINE_ENDS, 'g'), escaped)}\n`
      : `${line}\n`;
    if (this.#pending.length >= FLUSH_CHARACTERS) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), FLUSH_MS);
  }

  /** Bytes that the disk has not taken yet. */
  get backlog(): number {
    return this.#stream.writableLength;
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pending === '' || this.#error) return;
    this.#stream.write(this.#pending);
    this.#pending = '';
  }

  /** @throws PermanentError `ResultsNotWritten`, e.g. a full disk: results that were not written are not passed over */
  async close(): Promise<void> {
    this.flush();
    // A stream that failed has closed itself: it would not say so again.
    if (!this.#stream.closed) {
      await new Promise<void>((resolve) => {
        this.#stream.once('close', resolve);
        this.#stream.end();
      });
    }
    if (this.#error)
      throw new PermanentError('ResultsNotWritten', this.#error.message, { where: this.path }, this.#error);
  }
}
