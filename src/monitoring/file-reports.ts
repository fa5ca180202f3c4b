/**
 * Adds up the outcomes of each capture file of a run, from the counts of its ranges; and describes a chunk that failed.
 */

import type { LineChunk } from '../captures/lines/chunks.ts';
import type { Work } from '../core/aws/storage.ts';
import type { ObjectPlace } from '../core/contract/execution.ts';
import type { CaptureRange, ManifestLine } from '../core/contract/payloads.ts';
import {
  type EvaluateReceipt,
  type FileReport,
  LOG_TERMS,
  type LogReceipt,
  type NamedError,
  VERDICT_TERMS,
} from '../core/contract/receipts.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { addCounts } from '../core/values/counts.ts';
import { emptyLogCounts, emptyVerdictCounts, verdictTotal } from './counts.ts';

/**
 * Files that may still have ranges in later chunks. The end of a file may share a chunk with the ends of later files, so its
 * chunks are near each other, but not always next to each other.
 */
const OPEN_FILES = 5_000;

/** Characters of the report in memory, before they are written as one object. */
const OBJECT_CHARACTERS = 4_000_000;

/** The verdicts of a chunk: absent if they are lost, `off` if the run does not evaluate. */
type Evaluated = Pick<EvaluateReceipt, 'counts' | 'byRange' | 'beyond'> | 'off' | undefined;

type Sums = Pick<FileReport, 'lines' | 'verdicts'>;

const noSums = (): Sums => ({
  lines: { planned: 0, traced: 0, quarantined: 0, outsideWindow: 0, lost: 0 },
  verdicts: { expected: 0, ...emptyVerdictCounts(), lost: 0 },
});

/** What was written so far, and the files that are not; it continues in the next invocation. */
export interface FilesState {
  objects: number;
  files: number;
  open: FileReport[];
}

export class FileReports {
  readonly #open: Map<string, FileReport>;
  readonly #written: Omit<FilesState, 'open'>;
  /** The files that are closed and not written. */
  #text = '';

  constructor({ open, ...written }: FilesState = { objects: 0, files: 0, open: [] }) {
    this.#open = new Map(open.map((file) => [idOf(file), file]));
    this.#written = { ...written };
  }

  /** Returns what the next invocation continues with, when the closed files are written. */
  state(): FilesState {
    return { ...this.#written, open: [...this.#open.values()] };
  }

  /**
   * Adds a chunk, by its receipts that count.
   *
   * @param scorers the number of verdicts that each traced line expects, beyond those that the receipt names
   * @returns the sums of the chunk
   */
  add(
    { ranges }: Pick<ManifestLine, 'ranges'>,
    logged: Pick<LogReceipt, 'counts' | 'byRange'> | undefined,
    evaluated: Evaluated,
    scorers: number,
  ): Sums {
    const sums = noSums();
    for (const [index, range] of ranges.entries()) {
      const counts = logged && rowOf(LOG_TERMS, logged.counts, logged.byRange?.[index]);
      const { lines, traced, quarantined, outsideWindow } = counts ?? emptyLogCounts();
      const lost = Math.max(0, range.lines - lines);
      const verdicts = verdictsOf(evaluated, index, traced * scorers);
      for (const total of [this.#fileOf(range), sums]) {
        addCounts(total.lines, { planned: range.lines, traced, quarantined, outsideWindow, lost });
        addCounts<string>(total.verdicts, verdicts);
      }
    }
    return sums;
  }

  /** Returns the report of the range’s file, and makes it the last to be closed. */
  #fileOf({ bucket, key, versionId, etag }: ManifestLine['ranges'][number]): FileReport {
    const id = idOf({ bucket, key, versionId, etag });
    const file = this.#open.get(id) ?? { bucket, key, versionId, etag, ...noSums() };
    this.#open.delete(id);
    this.#open.set(id, file);
    if (this.#open.size > OPEN_FILES) this.#closeOldest();
    return file;
  }

  /** Closes the file that was added to the longest ago. */
  #closeOldest(): void {
    for (const [id, file] of this.#open) {
      this.#open.delete(id);
      this.#text += `${JSON.stringify(file)}\n`;
      this.#written.files += 1;
      return;
    }
  }

  /** Writes the closed files if they fill an object. With `how`, writes them in any case; with `all`, it closes all before. */
  async write({ storage, workBucket }: Work, run: string, how?: 'closed' | 'all'): Promise<void> {
    while (how === 'all' && this.#open.size > 0) this.#closeOldest();
    if (this.#text.length < (how === undefined ? OBJECT_CHARACTERS : 1)) return;
    await storage.putText(workBucket, workKeys.files(run, this.#written.objects), this.#text, 'application/jsonlines');
    this.#written.objects += 1;
    this.#text = '';
  }

  /** Forgets the closed files, where no reports are written: those of a large run would be longer than a string can be. */
  forget(): void {
    this.#written.files = 0;
    this.#text = '';
  }
}

const idOf = ({ bucket, key, versionId, etag }: Pick<FileReport, 'bucket' | 'key' | 'versionId' | 'etag'>): string =>
  [bucket, key, versionId ?? '', etag].join('\n');

/** Returns the counts of one range. A receipt without counts by range is of a chunk with one range. */
const rowOf = <Term extends string>(
  terms: readonly Term[],
  counts: Record<Term, number>,
  row: readonly number[] | undefined,
): Record<Term, number> =>
  row === undefined
    ? counts
    : (Object.fromEntries(terms.map((term, index) => [term, row[index] ?? 0])) as Record<Term, number>);

function verdictsOf(receipt: Evaluated, range: number, ofEach: number): Partial<FileReport['verdicts']> {
  if (receipt === 'off') return { expected: ofEach, evaluationOff: ofEach };
  const expected = ofEach + (receipt?.beyond?.[range] ?? 0);
  const row = receipt?.byRange?.[range];
  const total = receipt === undefined ? emptyVerdictCounts() : rowOf(VERDICT_TERMS, receipt.counts, row);
  const lost = Math.max(0, expected - verdictTotal(total));
  return { ...total, expected, failed: total.failed + lost, lost };
}

// -------------------------------------------------------------------------------------------------- a failed chunk
// As the summary of a run lists it.

/** A chunk that failed, or a range of it whose file could not be read although the others were. */
export interface FailedChunk extends ObjectPlace, Pick<LineChunk, 'start' | 'end' | 'firstLine' | 'lines'> {
  chunk: number;
  step: 'log' | 'evaluate';
  /** The number of its ranges, if it has several; the place is that of the first. */
  ranges?: number;
  error: NamedError;
}

/** @param error the last one of the step; `undefined` if it left no receipt */
export function failedChunk(
  { chunk, lines, ranges }: ManifestLine,
  step: FailedChunk['step'],
  error: NamedError | undefined,
): FailedChunk {
  const { bucket, key, start, end, firstLine } = ranges[0] as CaptureRange;
  const unknown = {
    name: 'NoReceipt',
    message: `The ${step} step left no receipt: it timed out, was killed or never started`,
  };
  const several = ranges.length > 1 ? { ranges: ranges.length } : {};
  const place = { bucket, key, start, end, firstLine, lines };
  return { chunk, step, ...several, ...place, error: error ?? unknown };
}
