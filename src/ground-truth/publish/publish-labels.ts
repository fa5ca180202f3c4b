/**
 * The step that writes the labels of marked hours to MLflow. Their outcomes are saved in the hours once, at the end of
 * each invocation. If an invocation is killed earlier, all labels stay open, and their ids show later which of them are
 * in MLflow.
 */

import { removeObject } from '../../core/aws/remove-object.ts';
import type { Work } from '../../core/aws/storage.ts';
import type { LabeledRow } from '../../core/contract/ground-truth.ts';
import { areaOf } from '../../core/contract/work-keys.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { countBy } from '../../core/values/counts.ts';
import { rowKey } from '../join/label-group.ts';
import { hourOfKey, readLabeled, rewriteHour } from '../join/labeled-store.ts';
import { type PublishResult, STEP_RESERVE_MS, type StepDependencies } from '../types.ts';
import { type Outcome, writeLabels } from './label-writer.ts';

/** Time reserved for the labels that are being written when the time is over, and for the hours. */
const RESERVE_MS = 2 * STEP_RESERVE_MS;
/** Maximum number of labels in one invocation. At 25 requests a second, they take 14 minutes. They are in memory. */
const MAX_LABELS = 20_000;
const MAX_CHARS = 32 * 1024 * 1024;
const MAX_HOURS = 200;
const HOURS_AT_ONCE = 4;

/** An hour with labels that MLflow does not have. */
interface OpenHour {
  hour: string;
  /** The marks that were there before its rows were read. */
  marks: string[];
  rows: LabeledRow[];
  /** All of its open rows are in `rows`. */
  isWhole: boolean;
}

/**
 * Writes labels to MLflow until all are there or the time is over.
 *
 * @throws the errors of an outage, of denied access, of a deleted experiment, of the storage
 *
 * @example
 *     const { cursor, noted, notNoted } = await publishLabels(null, deps);
 */
export async function publishLabels(_cursor: string | null, deps: StepDependencies): Promise<PublishResult> {
  const { environment, scorers, remainingMs } = deps;
  const { hours, isAll } = await readOpen(deps);
  if (hours.length === 0) return { cursor: null, noted: 0, notNoted: {} };
  const mlflow = await deps.mlflow();
  const { id: experimentId } = await mlflow.resolveExperiment(environment.MLFLOW_EXPERIMENT_NAME);
  const mayGoOn = (): boolean => remainingMs() > RESERVE_MS;
  const rows = hours.flatMap((one) => one.rows);
  const { outcomes, failure } = await writeLabels(rows, { store: mlflow, experimentId, scorers, mayGoOn });
  await forEachConcurrently(HOURS_AT_ONCE, hours, (hour) => keepOutcomes(deps, hour, outcomes));
  if (failure !== undefined) throw failure;
  const isDone = isAll && outcomes.size === rows.length;
  const { published = 0, ...notNoted } = countBy([...outcomes.values()], (outcome) => outcome);
  return { cursor: isDone ? null : 'more', noted: published, notNoted };
}

const isOpen = ({ noted, notNoted }: LabeledRow): boolean => noted !== true && notNoted === undefined;

/** Reads the labels of marked hours, as many as an invocation can do. */
async function readOpen(deps: StepDependencies) {
  const { storage, workBucket, remainingMs } = deps;
  const marks = new Map<string, string[]>();
  for await (const { key } of storage.list(workBucket, areaOf('truthOpen'))) {
    const hour = hourOfKey(key);
    if (marks.size === MAX_HOURS && !marks.has(hour)) break;
    marks.set(hour, [...(marks.get(hour) ?? []), key]);
  }
  const hours: OpenHour[] = [];
  let [labels, chars] = [0, 0];
  const isFull = (): boolean => labels >= MAX_LABELS || chars >= MAX_CHARS || remainingMs() <= RESERVE_MS;
  for (const [hour, keys] of marks) {
    const open: OpenHour = { hour, marks: keys, rows: [], isWhole: true };
    hours.push(open);
    for await (const row of readLabeled(deps, [hour])) {
      if (!isOpen(row)) continue;
      if (isFull()) {
        open.isWhole = false;
        return { hours, isAll: false };
      }
      open.rows.push(row);
      labels += 1;
      chars += String(row.label).length;
    }
    // Labels of the rows of a call come together, so that its trace is read once.
    open.rows.sort((a, b) => (a.traceId < b.traceId ? -1 : 1));
  }
  return { hours, isAll: marks.size < MAX_HOURS };
}

/** Writes the outcomes of its labels into the hour, and removes its marks if no label is open any more. */
async function keepOutcomes(
  work: Work,
  { hour, marks, rows, isWhole }: OpenHour,
  outcomes: ReadonlyMap<LabeledRow, Outcome>,
): Promise<void> {
  const settled = new Map(rows.filter((row) => outcomes.has(row)).map((row) => [rowKey(row), row]));
  let left = rows.length > 0 || !isWhole ? 1 : 0;
  if (settled.size > 0) {
    await rewriteHour(work, hour, async function* (draft) {
      left = 0;
      for await (const row of draft.rows) {
        const of = isOpen(row) ? settled.get(rowKey(row)) : undefined;
        const next = of === undefined ? row : afterOutcome(row, of, outcomes.get(of));
        draft.changed ||= next !== row;
        if (isOpen(next)) left += 1;
        yield next;
      }
    });
  }
  const remove = (key: string) => removeObject(work.storage, work.workBucket, key);
  if (left === 0) await forEachConcurrently(HOURS_AT_ONCE, marks, remove);
}

/** @param of the row whose label was written */
function afterOutcome(row: LabeledRow, of: LabeledRow, outcome: Outcome | undefined): LabeledRow {
  if (of.label === row.label) {
    return outcome === 'published' ? { ...row, noted: true } : { ...row, notNoted: outcome };
  }
  // Another label has replaced it meanwhile.
  return outcome === 'published' && row.noted === undefined ? { ...row, noted: false } : row;
}
