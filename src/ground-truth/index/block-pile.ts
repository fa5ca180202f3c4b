/** Rows of an hour on their way into an object of the index: they are compressed as they come. */
import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import type { PredictionRow } from '../../core/contract/ground-truth.ts';
import { encodeBlock } from './blocks.ts';

const BLOCK_ROWS = 1_000;
/** A block of wide rows ends earlier. Characters, roughly. */
const BLOCK_WEIGHT = 256 * 1024;
const DIGEST_CHARS = 16;
/** Two thirds of the time of zlib's default. Ids and numbers are hardly longer for it. */
const LEVEL = 3;

const weightOf = ({ id, prediction: { scores, classes }, groups }: PredictionRow): number =>
  100 + id.length + 20 * ((scores?.length ?? 0) + (classes?.length ?? 0) + (groups?.length ?? 0));

export class BlockPile {
  readonly #pieces: Buffer[] = [];
  readonly #hash = createHash('sha256');
  #open: PredictionRow[] = [];
  #weight = 0;

  /** Rows of one call are added one after the other. */
  add(row: PredictionRow): void {
    this.#open.push(row);
    this.#weight += weightOf(row);
    if (this.#open.length >= BLOCK_ROWS || this.#weight >= BLOCK_WEIGHT) this.#close();
  }

  #close(): void {
    const line = `${encodeBlock(this.#open)}\n`;
    this.#open = [];
    this.#weight = 0;
    this.#hash.update(line);
    this.#pieces.push(gzipSync(line, { level: LEVEL }));
  }

  /** Returns the object, and the digest of its content; `undefined` without rows. */
  end(): { body: Buffer; digest: string } | undefined {
    if (this.#open.length > 0) this.#close();
    if (this.#pieces.length === 0) return undefined;
    return { body: Buffer.concat(this.#pieces), digest: this.#hash.digest('hex').slice(0, DIGEST_CHARS) };
  }
}
