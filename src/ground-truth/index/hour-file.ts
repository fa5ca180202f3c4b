/** Predictions of an hour on their way into a file of the index: they are compressed as they come. */
import { createHash } from 'node:crypto';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { PredictionRow } from '../../core/contract/ground-truth.ts';

/** A file consists of gzip members, each of so much text. Characters. */
const MEMBER_CHARS = 256 * 1024;
const DIGEST_CHARS = 16;
/** Two thirds of the time of zlib's default, for hardly more bytes. */
const LEVEL = 3;

export class HourFile {
  readonly #members: Buffer[] = [];
  readonly #hash = createHash('sha256');
  #open = '';

  add(row: PredictionRow): void {
    // Readers look for the id at the beginning of the line.
    const { id, ...rest } = row;
    this.#open += `${JSON.stringify({ id, ...rest })}\n`;
    if (this.#open.length >= MEMBER_CHARS) this.#close();
  }

  #close(): void {
    this.#hash.update(this.#open);
    this.#members.push(gzipSync(this.#open, { level: LEVEL }));
    this.#open = '';
  }

  /** Ends the file. @returns its bytes and the digest of its content; `undefined` without rows */
  end(): { body: Buffer; digest: string } | undefined {
    if (this.#open !== '') this.#close();
    if (this.#members.length === 0) return undefined;
    return { body: Buffer.concat(this.#members), digest: this.#hash.digest('hex').slice(0, DIGEST_CHARS) };
  }

  /** Returns a file without the rows of these traces. */
  without(traces: { has(traceId: string): boolean }): HourFile {
    if (this.#open !== '') this.#close();
    const left = new HourFile();
    for (const member of this.#members) {
      for (const line of gunzipSync(member).toString().split('\n')) {
        const row = line === '' ? undefined : (JSON.parse(line) as PredictionRow);
        if (row !== undefined && !traces.has(row.traceId)) left.add(row);
      }
    }
    return left;
  }
}
