/**
 * Batches in a folder, while the bucket is away: a file each, which keeps the key of the object that it becomes. All is synchronous, so that
 * it works at the end of the process, too: a batch is some megabyte, and goes to the system's memory.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Batch } from './batch.ts';

const ENDING = '.capture-batch';
/** Another process may send a file at any time. */
const ABSENT = { throwIfNoEntry: false } as const;
/** Sorts after those that are there. */
const newName = () => `${String(Date.now()).padStart(14, '0')}-${randomUUID()}${ENDING}`;

export class Spool {
  readonly #folder: string;
  readonly #mostBytes: number;

  /** @throws Error if the folder cannot be made */
  constructor(folder: string, mostBytes: number) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#folder = folder;
    this.#mostBytes = mostBytes;
  }

  /** @throws Error if the folder is full, or the file cannot be written */
  write({ body, ...about }: Batch): void {
    const used = this.#paths().reduce((sum, file) => sum + (statSync(file, ABSENT)?.size ?? 0), body.length);
    if (used > this.#mostBytes) {
      throw new Error(`The spool is full; got: ${used} bytes; expected: at most ${this.#mostBytes}`);
    }
    const path = join(this.#folder, newName());
    // Requests and replies are personal: only the application's own user may read them.
    const bytes = Buffer.concat([Buffer.from(`${JSON.stringify(about)}\n`), body]);
    try {
      writeFileSync(`${path}.part`, bytes, { mode: 0o600, flag: 'wx' });
      renameSync(`${path}.part`, path);
    } finally {
      rmSync(`${path}.part`, { force: true });
    }
  }

  /** Yields the batches for a bucket, oldest first. A file goes when the next batch is asked for: until then its object may be missing. */
  *batches(bucket: string): Generator<Batch> {
    for (const path of this.#paths()) {
      try {
        const bytes = readFileSync(path);
        const end = bytes.indexOf('\n');
        const batch: Batch = { ...JSON.parse(bytes.toString('utf8', 0, end)), body: bytes.subarray(end + 1) };
        if (batch.bucket !== bucket) continue;
        // What is refused, such as a key with a former prefix, is last the next time, and holds nothing back.
        const last = join(this.#folder, newName());
        renameSync(path, last);
        yield batch;
        rmSync(last, { force: true });
      } catch {
        // Another process has sent it, or it is damaged.
      }
    }
  }

  #paths(): string[] {
    const names = readdirSync(this.#folder).filter((name) => name.endsWith(ENDING));
    return names.sort().map((name) => join(this.#folder, name));
  }
}
