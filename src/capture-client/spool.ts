/**
 * A folder for batches while the bucket is away: below the bucket's name, the path of a file is the key of its object. All is synchronous,
 * so that it works at the end of the process, too: a batch is some megabyte, and goes to the system's memory.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import type { Batch } from './batch.ts';
import type { Settings } from './options.ts';

export class Spool {
  readonly #folder: string;
  readonly #mostBytes: number;

  /** @throws Error if the folder cannot be made */
  constructor(folder: string, { bucket, spoolBytes }: Settings) {
    this.#folder = join(folder, bucket);
    this.#mostBytes = spoolBytes;
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
  }

  /** @throws Error if the folder is full, or the file cannot be written */
  write({ key, body }: Batch): void {
    const used = this.#files().reduce((sum, { size }) => sum + size, body.length);
    if (used > this.#mostBytes) {
      throw new Error(`The spool is full; got: ${used} bytes; expected: at most ${this.#mostBytes}`);
    }
    const path = join(this.#folder, key);
    mkdirSync(dirname(path), { recursive: true });
    // Requests and replies are personal: only the application's own user may read them.
    writeFileSync(`${path}.part`, body, { mode: 0o600 });
    renameSync(`${path}.part`, path);
  }

  /** Yields batches, oldest first. A file goes when the next batch is asked for: until then its object may be missing. */
  *batches(): Generator<Batch> {
    for (const { path } of this.#files()) {
      try {
        // What is refused, such as a key with a former prefix, is last the next time, and holds nothing back.
        utimesSync(path, new Date(), new Date());
        yield { key: relative(this.#folder, path).replaceAll(sep, '/'), body: readFileSync(path) };
        rmSync(path, { force: true });
      } catch {
        // Another process has sent it.
      }
    }
  }

  #files(): { path: string; size: number; at: number }[] {
    const names = readdirSync(this.#folder, { recursive: true, encoding: 'utf8' });
    const files = names.flatMap((name) => {
      const path = join(this.#folder, name);
      // Another process may send a file at any time.
      const about = name.endsWith('.jsonl') ? statSync(path, { throwIfNoEntry: false }) : undefined;
      return about === undefined ? [] : [{ path, size: about.size, at: about.mtimeMs }];
    });
    return files.sort((a, b) => a.at - b.at);
  }
}
