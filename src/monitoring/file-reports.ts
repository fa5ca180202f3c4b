/** Adds up what became of each capture file of a run, from the counts of its ranges. */
import type { ManifestLine } from '../contract/payloads.ts';
import {
  type EvaluateReceipt,
  type FileReport,
  LOG_TERMS,
  type LogCounts,
  type LogReceipt,
  VERDICT_TERMS,
  type VerdictCounts,
} from '../contract/receipts.ts';
import { workKeys } from '../contract/work-keys.ts';
import type { Storage } from '../shared/storage.ts';
import { addCounts, emptyVerdictCounts } from './counts.ts';

/**
 * Files that may still have ranges in later chunks. The end of a file may share a chunk with the ends of later files, so its
 * chunks are near each other, but not always next to each other.
 */
const OPEN_FILES = 5_000;

/** Lines of the report in memory, in characters, before they are written as one object. */
const OBJECT_CHARACTERS = 4_000_000;

/** What was written so far, and the files that are not; it continues in the next invocation. */
export interface FilesState {
  objects: number;
  files: number;
  open: FileReport[];
}

/** The receipts of a chunk that count. */
interface CountedReceipts {
  /** Empty if the chunk was not logged. */
  log: readonly Pick<LogReceipt, 'counts' | 'byRange'>[];
  /** `undefined` if the run does not evaluate. */
  evaluate: readonly Pick<EvaluateReceipt, 'traced' | 'counts' | 'byRange'>[] | undefined;
}

export class FileReports {
  readonly #open: Map<string, FileReport>;
  readonly #written: Omit<FilesState, 'open'>;
  #lines: string[] = [];
  #characters = 0;

  constructor({ open, ...written }: FilesState = { objects: 0, files: 0, open: [] }) {
    this.#open = new Map(open.map((file) => [idOf(file), file]));
    this.#written = written;
  }

  /** Returns the number of files that were closed. */
  get count(): number {
    return this.#written.files;
  }

  /** @param scorers the number of verdicts that each traced line expects */
  add({ ranges }: Pick<ManifestLine, 'ranges'>, { log, evaluate }: CountedReceipts, scorers: number): void {
    for (const [index, range] of ranges.entries()) {
      const file = this.#fileOf(range);
      const counted = sumRange(LOG_TERMS, log, index, ({ counts }) => LOG_TERMS.map((term) => counts[term]));
      const { traced, quarantined, outsideWindow } = counted as unknown as LogCounts;
      const lost = Math.max(0, range.lines - counted.lines);
      addCounts(file.lines, { planned: range.lines, traced, quarantined, outsideWindow, lost });
      addCounts<string>(file.verdicts, verdictsOf(evaluate, index, traced * scorers));
    }
    if (this.#open.size > OPEN_FILES) this.#close(this.#open.size - OPEN_FILES);
  }

  /** Returns the report of the range’s file, and makes it the last to be closed. */
  #fileOf({ bucket, key, versionId, etag }: ManifestLine['ranges'][number]): FileReport {
    const id = idOf({ bucket, key, versionId, etag });
    const file = this.#open.get(id) ?? {
      ...{ bucket, key, versionId, etag },
      lines: { planned: 0, traced: 0, quarantined: 0, outsideWindow: 0, lost: 0 },
      verdicts: { expected: 0, ...emptyVerdictCounts(), lost: 0 },
    };
    this.#open.delete(id);
    this.#open.set(id, file);
    return file;
  }

  /** Closes the files that were added to the longest ago. */
  #close(count: number): void {
    let left = count;
    for (const [id, file] of this.#open) {
      if (left === 0) return;
      left -= 1;
      this.#open.delete(id);
      this.#lines.push(`${JSON.stringify(file)}\n`);
      this.#characters += this.#lines.at(-1)?.length ?? 0;
      this.#written.files += 1;
    }
  }

  /** Writes the closed files if they fill an object; with `end`, all files. */
  async write(storage: Storage, workBucket: string, run: string, end = false): Promise<void> {
    if (end) this.#close(this.#open.size);
    if (this.#characters < OBJECT_CHARACTERS && !(end && this.#lines.length > 0)) return;
    await this.#flush(storage, workBucket, run);
  }

  /** Writes the closed files. @returns where the next invocation continues */
  async state(storage: Storage, workBucket: string, run: string): Promise<FilesState> {
    if (this.#lines.length > 0) await this.#flush(storage, workBucket, run);
    return { ...this.#written, open: [...this.#open.values()] };
  }

  async #flush(storage: Storage, workBucket: string, run: string): Promise<void> {
    const key = workKeys.files(run, this.#written.objects);
    await storage.putText(workBucket, key, this.#lines.join(''), 'application/jsonlines');
    this.#written.objects += 1;
    this.#lines = [];
    this.#characters = 0;
  }
}

const idOf = ({ bucket, key, versionId, etag }: Pick<FileReport, 'bucket' | 'key' | 'versionId' | 'etag'>): string =>
  [bucket, key, versionId ?? '', etag].join('\n');

/** Adds up one range over the parts of a chunk. A receipt without counts by range is of a chunk with one range. */
function sumRange<Term extends string, R extends { byRange?: number[][] }>(
  terms: readonly Term[],
  receipts: readonly R[],
  range: number,
  whole: (receipt: R) => number[],
): Record<Term, number> {
  const total = Object.fromEntries(terms.map((term) => [term, 0])) as Record<Term, number>;
  for (const receipt of receipts) {
    const row = receipt.byRange === undefined ? range === 0 && whole(receipt) : receipt.byRange[range];
    for (const [index, term] of terms.entries()) total[term] += (row || [])[index] ?? 0;
  }
  return total;
}

const EVALUATE_TERMS = ['traced', ...VERDICT_TERMS] as const;

function verdictsOf(
  receipts: CountedReceipts['evaluate'],
  range: number,
  expected: number,
): Partial<FileReport['verdicts']> {
  if (receipts === undefined) return { expected, evaluationOff: expected };
  const row = sumRange(EVALUATE_TERMS, receipts, range, ({ traced, counts }) => [
    traced,
    ...VERDICT_TERMS.map((term) => counts[term]),
  ]);
  const { traced: _, ...counts } = row;
  const lost = Math.max(
    0,
    VERDICT_TERMS.reduce((rest, term) => rest - counts[term], expected),
  );
  return { ...(counts as VerdictCounts), expected, failed: counts.failed + lost, lost };
}
