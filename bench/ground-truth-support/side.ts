/**
 * The steps of a ground truth run that the benchmark measures, in a process of their own: reading labels, joining them, measuring.
 * The argument is a `SideInput` as JSON. Prints a `SideReport` as the last line.
 */

import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { joinLabels } from '../../src/ground-truth/join/join-labels.ts';
import { labeledHours, readLabeled } from '../../src/ground-truth/join/labeled-store.ts';
import { readLabelFiles } from '../../src/ground-truth/labels/read-files.ts';
import { measureTruth } from '../../src/ground-truth/measure/measure.ts';
import type { StepResult } from '../../src/ground-truth/types.ts';
import { stepsOn } from '../../test/helpers/ground-truth.ts';
import { peakBytes } from '../support/peak-memory.js';

export interface SideInput {
  labelBucket: string;
  prefix: string;
}

export interface SideReport {
  readSeconds: number;
  joinSeconds: number;
  measureSeconds: number;
  /** Rows whose label was compared with their prediction. */
  compared: number;
  accuracy: number | null | undefined;
  cpuSeconds: number;
  peakMb: number;
}

const INVOCATION_MS = 900_000;
const { labelBucket, prefix } = JSON.parse(process.argv[2] ?? '{}') as SideInput;
const storage = new Storage(createS3Client());
let startedAt = performance.now();
const deps = stepsOn(storage, {}, () => INVOCATION_MS - (performance.now() - startedAt));

async function seconds(step: (cursor: string | null) => Promise<StepResult>): Promise<number> {
  const beganAt = performance.now();
  let cursor: string | null = null;
  do {
    startedAt = performance.now();
    ({ cursor } = await step(cursor));
  } while (cursor !== null);
  return (performance.now() - beganAt) / 1000;
}

const readSeconds = await seconds((cursor) => readLabelFiles({ bucket: labelBucket, prefix }, cursor, deps));
const joinSeconds = await seconds((cursor) => joinLabels(cursor, deps));
const measuredAt = performance.now();
const hours = await labeledHours(deps);
const { groups } = await measureTruth(() => readLabeled(deps, hours), deps.environment.GROUND_TRUTH, {
  by: 'hour',
});
const { user, system } = process.cpuUsage();
const report: SideReport = {
  readSeconds,
  joinSeconds,
  measureSeconds: (performance.now() - measuredAt) / 1000,
  compared: groups.reduce((sum, { compared }) => sum + compared, 0),
  accuracy: groups[0]?.measures?.accuracy?.value,
  cpuSeconds: (user + system) / 1e6,
  peakMb: peakBytes() / 1e6,
};
console.log(JSON.stringify(report));
process.exit(0);
