/** Reads windows of the hourly counts and computes their rates, in a process of its own. Prints a `ReadReport` as the last line. */
import { setFlagsFromString } from 'node:v8';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { cellsOf, readWindow } from '../../src/quality/counts-store.ts';
import { daysWithCounts } from '../../src/quality/day-objects.ts';
import { groupRates } from '../../src/quality/rates.ts';
import { peakBytes } from '../support/peak-memory.js';

export interface ReadReport {
  /** To read the counts, and then to compute the rates by day and by variant. */
  readSeconds: number;
  ratesSeconds: number;
  captures: number;
  cells: number;
  peakMb: number;
}

// As bin/inference-monitor.ts does.
setFlagsFromString('--semi-space-growth-factor=1');
const [bucket = '', from, to] = process.argv.slice(2);
const window = { fromMs: Number(from), toMs: Number(to) };
const storage = new Storage(createS3Client());
const beganAt = performance.now();
const cells = cellsOf(await readWindow(storage, bucket, await daysWithCounts(storage, bucket), window));
const readAt = performance.now();
for (const by of ['day', 'variant'] as const) groupRates(cells, { window, by, active: scorersFor() });
const report: ReadReport = {
  readSeconds: (readAt - beganAt) / 1000,
  ratesSeconds: (performance.now() - readAt) / 1000,
  captures: cells.reduce((sum, { cell }) => sum + (cell.captures ?? 0), 0),
  cells: cells.length,
  peakMb: peakBytes() / 1e6,
};
console.log(JSON.stringify(report));
