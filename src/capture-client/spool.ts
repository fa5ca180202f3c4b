/** Batches in a folder, while the bucket is away: a file each, which keeps the key of the object that it becomes. */
import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { readdir, readFile, rename, stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Batch } from './batch.ts';

const ENDING = '.capture-batch';
/** Requests and replies are personal: only the application's own user may read them. */
const OWN = { mode: 0o600, flag: 'wx' } as const;

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
  async write(batch: Batch): Promise<void> {
    const sizes = await Promise.all((await this.list()).map(async (file) => (await stat(file)).size));
    this.#checkRoom(batch, sizes);
    const [parts, path] = [this.#partsOf(batch), this.#path()];
    await writeFile(`${path}.part`, parts, OWN);
    await rename(`${path}.part`, path);
  }

  /** As `write`, when the process ends. */
  writeSync(batch: Batch): void {
    const files = readdirSync(this.#folder).filter((name) => name.endsWith(ENDING));
    this.#checkRoom(
      batch,
      files.map((name) => statSync(join(this.#folder, name)).size),
    );
    const path = this.#path();
    writeFileSync(`${path}.part`, Buffer.concat(this.#partsOf(batch)), OWN);
    renameSync(`${path}.part`, path);
  }

  /** Returns the paths of the files, oldest first. */
  async list(): Promise<string[]> {
    const names = await readdir(this.#folder);
    return names
      .filter((name) => name.endsWith(ENDING))
      .sort()
      .map((name) => join(this.#folder, name));
  }

  async read(file: string): Promise<Batch> {
    const bytes = await readFile(file);
    const end = bytes.indexOf('\n');
    return { ...JSON.parse(bytes.toString('utf8', 0, end)), body: slices(bytes.subarray(end + 1)) };
  }

  /** Another process may have sent it already. */
  async remove(file: string): Promise<void> {
    await unlink(file).catch(() => {});
  }

  #path(): string {
    return join(this.#folder, `${String(Date.now()).padStart(14, '0')}-${randomUUID()}${ENDING}`);
  }

  #partsOf({ body, ...about }: Batch): Buffer[] {
    return [Buffer.from(`${JSON.stringify(about)}\n`), ...body];
  }

  #checkRoom({ bytes }: Batch, sizes: number[]): void {
    const used = sizes.reduce((sum, size) => sum + size, 0);
    if (used + bytes > this.#mostBytes) {
      throw new Error(`The spool is full; got: ${used + bytes} bytes; expected: at most ${this.#mostBytes}`);
    }
  }
}

const SLICE = 64 * 1024;
const slices = (bytes: Buffer): Buffer[] =>
  Array.from({ length: Math.ceil(bytes.length / SLICE) }, (_, i) => bytes.subarray(i * SLICE, (i + 1) * SLICE));
