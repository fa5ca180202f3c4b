/** Lines that planning skips: counted by reason, and stored with their places. */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Storage } from '../../../core/aws/storage.ts';
import { putFile } from '../../../core/aws/uploads.ts';
import { LineWriter } from '../../results/line-writer.ts';
import type { SkippedLine } from '../../source/types.ts';
import { plannedSkippedKey } from '../work-bucket/keys.ts';

/** Collects skipped lines in a temporary file. */
export class SkippedLines {
  #directory: string | undefined;
  #file: LineWriter | undefined;
  readonly reasons: Record<string, number> = {};

  add(line: SkippedLine): void {
    this.reasons[line.reason] = (this.reasons[line.reason] ?? 0) + 1;
    this.#directory ??= mkdtempSync(join(tmpdir(), 'replay-skipped-'));
    this.#file ??= new LineWriter(join(this.#directory, 'skipped.jsonl'));
    this.#file.write(JSON.stringify(line));
  }

  /** Uploads the lines to the work bucket, if there are any. */
  async store(storage: Storage, bucket: string, run: string): Promise<void> {
    if (!this.#file) return;
    await this.#file.close();
    await putFile(storage, bucket, plannedSkippedKey(run), this.#file.path, 'application/jsonlines');
  }

  async dispose(): Promise<void> {
    if (this.#directory) await rm(this.#directory, { recursive: true, force: true });
  }
}
