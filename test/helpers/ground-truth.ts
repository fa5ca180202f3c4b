/** Label files and predictions in a storage, the steps that join them, and the outcome of both. */

import { capturePathOf } from '../../src/captures/files/capture-path.ts';
import type { Storage } from '../../src/core/aws/storage.ts';
import type {
  Label,
  LabeledRow,
  LabelFileReport,
  PredictionRow,
  TruthInput,
} from '../../src/core/contract/ground-truth.ts';
import { areaOf } from '../../src/core/contract/work-keys.ts';
import { joinLabels } from '../../src/ground-truth/join/join-labels.ts';
import { labeledHours, readLabeled } from '../../src/ground-truth/join/labeled-store.ts';
import { readLabelFiles } from '../../src/ground-truth/labels/read-files.ts';
import { listSegments, readSegment } from '../../src/ground-truth/labels/waiting.ts';
import { rowsOfPrediction } from '../../src/ground-truth/predictions/ledger-rows.ts';
import type { StepDependencies } from '../../src/ground-truth/types.ts';
import { labelScorers, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { appendRows } from '../../src/ledger/files.ts';
import type { EventColumns, Row } from '../../src/ledger/tables.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { testEnvironment } from './test-environment.ts';

/** An hour before midnight, epoch seconds. */
export const LATE_SECOND = Date.UTC(2026, 10, 20, 23, 10) / 1000;

export const prediction = (id: string, more: Partial<PredictionRow> = {}): PredictionRow => ({
  id,
  endpoint: 'fern-house',
  variant: 'blue',
  second: LATE_SECOND,
  traceId: `tr-of-${id}`,
  prediction: { value: 1 },
  ...more,
});

/** Writes predictions to the ledger, as a part of a run does. */
export async function index(
  storage: Storage,
  rows: readonly PredictionRow[],
  workBucket = 'work',
  event: EventColumns = {},
): Promise<void> {
  const eventOf = ({ traceId, variant, second }: PredictionRow): EventColumns => ({
    traceId,
    variant,
    hour: hourOf(second * 1000),
    precedence: 1n,
    ...event,
  });
  const work = { storage, workBucket };
  const all = rows.map((row) => ({ event: eventOf(row), ...rowsOfPrediction(row, 30, false) }));
  await appendRows(work, { inferences: all.map(({ event, inferences }) => ({ ...event, ...inferences })) });
  await appendRows(work, {
    'ids/inferences': all.map(({ event, 'ids/inferences': id }) => ({ ...event, ...id })),
  });
}

/** Returns the row of a line that was traced. */
export const tracedRow = (traceId: string, key = '', ms = LATE_SECOND * 1000): Row<'captures'> => ({
  traceId,
  variant: capturePathOf(key).variant,
  hour: hourOf(ms),
  outcome: 'traced',
  precedence: 1n,
});

/** @param more for example `GROUND_TRUTH` as JSON */
export const stepsOn = (
  storage: Storage,
  more: Record<string, string> = {},
  remainingMs = () => 900_000,
): StepDependencies => ({
  storage,
  workBucket: 'work',
  environment: testEnvironment({ GROUND_TRUTH: '{"days":400}', ...more }),
  run: { arn: 'arn:run', name: 'run', startTime: '2026-11-25T00:00:00Z' },
  scorers: labelScorers(scorersFor()),
  remainingMs,
  mlflow: () => Promise.reject(new Error('nothing is published')),
});

/** Does the first two steps of a run, whatever number of invocations they take. @returns the keys of the reports */
export async function readAndJoin(deps: StepDependencies, input: TruthInput = {}): Promise<string[]> {
  const files: string[] = [];
  let cursor: string | null = null;
  do {
    const read = await readLabelFiles(input, cursor, deps);
    files.push(...read.files);
    cursor = read.cursor;
  } while (cursor !== null);
  do {
    ({ cursor } = await joinLabels(cursor, deps));
  } while (cursor !== null);
  return files;
}

export interface TruthFacts {
  rows: LabeledRow[];
  reports: Omit<LabelFileReport, 'readAt'>[];
  waiting: Label[];
}

const byText = (a: unknown, b: unknown): number => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);

/** Returns everything that the steps have stored, in an order that does not depend on that of their work. */
export async function truthFacts(storage: Storage, bucket = 'work'): Promise<TruthFacts> {
  const facts: TruthFacts = { rows: [], reports: [], waiting: [] };
  const work = { storage, workBucket: bucket };
  for await (const row of readLabeled(work, await labeledHours(work))) facts.rows.push(row);
  for await (const { key } of storage.list(bucket, areaOf('truthFiles'))) {
    const { readAt, ...report } = (await storage.getJson<LabelFileReport>(bucket, key)) as LabelFileReport;
    facts.reports.push(report);
  }
  for await (const name of listSegments(work)) {
    facts.waiting.push(...((await readSegment(work, name))?.labels ?? []));
  }
  facts.rows.sort(byText);
  facts.waiting.sort(byText);
  facts.reports.sort((a, b) => (a.key < b.key ? -1 : 1));
  return facts;
}
