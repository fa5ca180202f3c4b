/** What became of the capture files of a run, by its plan and the rows of its lines. */
import type { Work } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { dayOf } from '../../src/ledger/files.ts';
import { type FileOutcomes, filesOfRun, type RowQuery } from '../../src/ledger/what-became.ts';
import { withRanges } from '../../src/monitoring/chunk/ranges.ts';
import { fileMsOf } from '../../src/monitoring/outcomes/rows.ts';
import { readManifest, readPlanReceipts } from '../../src/monitoring/receipts.ts';
import { hourOf } from '../../src/quality/tally.ts';
import type { FoundRun } from './run-report.ts';

/** What became of the lines of a capture file: `lost` are those that the run has planned, and knows no outcome of. */
export interface FileReport extends FileOutcomes {
  key: string;
  lost: number;
  /** Why it could not be planned. */
  error?: string;
}

const DAY_MS = 86_400_000;

/** Returns which rows may be those of a run. @param newestMs the time of its newest file, epoch milliseconds: a line may name a day later */
export const rowsOfRun = ({ name: run, startDate }: FoundRun, newestMs?: number): RowQuery & { run: string } => ({
  run,
  sinceMs: startDate?.getTime() ?? 0,
  lastDay: newestMs === undefined ? undefined : dayOf(hourOf(newestMs + DAY_MS)),
});

/** Returns what became of the files of a run, in the order of its plan. @throws PermanentError `RunUnknown` without a plan */
export async function readRunFiles(work: Work, found: FoundRun): Promise<FileReport[]> {
  const planned = new Map<string, { key: string; lines: number }>();
  let newestMs = 0;
  for await (const chunk of readManifest(work, found.name)) {
    for (const { bucket, key, lines, objectTimeMs } of (await withRanges(work, chunk)).ranges) {
      const file = planned.get(`${bucket}/${key}`) ?? { key, lines: 0 };
      planned.set(`${bucket}/${key}`, file);
      file.lines += lines;
      newestMs = Math.max(newestMs, fileMsOf({ key, objectTimeMs }));
    }
  }
  const plans = await Array.fromAsync(readPlanReceipts(work, found.name));
  if (plans.length === 0) {
    const facts = { got: found.name, expected: 'a run of the last 90 days that has planned something' };
    throw new PermanentError('RunUnknown', 'The work bucket contains no plan of the run', facts);
  }
  const known = await filesOfRun(work, rowsOfRun(found, newestMs));
  const files = [...planned].map(([place, { key, lines }]): FileReport => {
    const { outcomes = {}, reasons = {}, lines: told = 0 } = known.get(place) ?? {};
    return { key, lines, outcomes, reasons, lost: Math.max(0, lines - told) };
  });
  const none = { lines: 0, outcomes: {}, reasons: {}, lost: 0 };
  const failed = plans.flatMap(({ failedFiles = [] }) => failedFiles);
  return [...files, ...failed.map(({ key, error }) => ({ key, ...none, error: `${error.name}: ${error.message}` }))];
}
