/** Writes labels to existing traces: many traces are read in a request, and each label is a request. */

import { assessmentIdOf, childSpanIdOf } from '../../captures/trace/ids.ts';
import type { LabeledRow, LabelScorer } from '../../core/contract/ground-truth.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { batches } from '../../core/values/batches.ts';
import { readLabel } from '../../core/values/scorer-values.ts';
import type { TraceStore } from '../../mlflow/client.ts';
import { MlflowRefusedError, MlflowRetryableError } from '../../mlflow/errors.ts';
import { CONCURRENT_WRITES } from '../../mlflow/existing-traces.ts';
import { GROUND_TRUTH, labelMetadata } from '../../mlflow/plan-assessments.ts';
import { recentReads } from '../../mlflow/recent-reads.ts';
import {
  type LabelLeft,
  type NewAssessment,
  RIGHT_METADATA,
  type StoredTrace,
  type WriteAssessmentsResult,
} from '../../mlflow/types.ts';
import { sameLabel } from '../label-value.ts';
import { hashesOf } from '../masked.ts';

// -------------------------------------------------------------------------------------- a label as MLflow keeps it
// The true answer as an expectation, a label for a scorer as a person's assessment.

/** The name of the labeller for labels without a name. */
const SOURCE = 'ground truth';

/**
 * Reasons why a label is not written. `LabelOfRow`: a scorer assesses the whole call, so a label of one row does not
 * apply to its verdict.
 */
type NotPublished =
  | LabelLeft
  | 'TraceMissing'
  | 'UnknownScorer'
  | 'NotAValue'
  | 'LabelOfRow'
  | 'MlflowRefused'
  | 'MlflowFailed';

/**
 * Returns a label in MLflow's form, or the reason why it is not written. A true answer becomes an expectation; a label
 * for a scorer becomes a person's assessment.
 *
 * @param scorers of the settings, by name
 */
export function labelAssessment(
  row: LabeledRow,
  scorers: ReadonlyMap<string, LabelScorer>,
): NewAssessment | { notPublished: NotPublished } {
  const { traceId, by: sourceId = SOURCE, row: position, timeMs: createTimeMs } = row;
  const base = { traceId, sourceType: 'HUMAN', sourceId, createTimeMs, wasWritten: row.noted === false } as const;
  if (row.scorer === undefined) {
    return {
      ...base,
      assessmentId: assessmentIdOf(traceId, GROUND_TRUTH, `label ${position ?? ''}`, ''),
      name: GROUND_TRUTH,
      isExpectation: true,
      ...(position === undefined ? {} : { spanId: childSpanIdOf(traceId, position) }),
      value: row.label,
      metadata: { ...labelMetadata(row.label), ...rightness(row) },
    };
  }
  if (position !== undefined) return { notPublished: 'LabelOfRow' };
  const scorer = scorers.get(row.scorer);
  if (scorer === undefined) return { notPublished: 'UnknownScorer' };
  const value = scorer.values === undefined ? row.label : readLabel(scorer.values, row.label);
  if (value === undefined) return { notPublished: 'NotAValue' };
  const { name } = scorer;
  const assessmentId = assessmentIdOf(traceId, name, 'label', sourceId);
  return { ...base, assessmentId, name, value, metadata: labelMetadata(value) };
}

/**
 * Returns whether the answer was right, if that can be decided without the other answers: for texts by their normalized
 * form, and for named classes. A number may be a class, a value or a probability. Rows of a call have no result,
 * because a scorer assesses the whole call.
 */
function rightness(labeled: LabeledRow): Record<string, string> {
  const { row, label, prediction } = labeled;
  const { text, value } = prediction;
  const isText = text !== undefined;
  if (row !== undefined || !(isText || typeof value === 'string')) return {};
  const isRight = isText ? text[1] === hashesOf(labeled)?.[1] : value !== undefined && sameLabel(value, label);
  return { [RIGHT_METADATA]: isRight ? 'yes' : 'no' };
}

// ------------------------------------------------------------------------------------------------------ the writer

/** The outcome of a label in MLflow. */
export type Outcome = 'published' | NotPublished;

type OnFailure = (row: LabeledRow, error: Error) => void;
type Wanted = { row: LabeledRow; assessment: NewAssessment };

/** If MLflow refuses this many labels in a row, the fault is not in the labels. */
const FAILURES_IN_A_ROW = 5;
/** A label is a row of a trace, so these are at most as many traces, which one request reads. */
const LABELS_PER_BATCH = 100;

interface Options {
  store: Pick<TraceStore, 'getTraces' | 'getExperiment' | 'writeAssessments'>;
  experimentId: string;
  scorers: readonly LabelScorer[];
  /** Whether there is time for another label. */
  mayGoOn(): boolean;
}

/**
 * Writes labels, and returns the outcome of each. Leaves out labels for which there was no time, and labels on which
 * the server failed if it accepts no other label after them; `failure` is then the reason.
 *
 * @throws the errors of an outage, of denied access, of a deleted experiment
 */
export async function writeLabels(rows: readonly LabeledRow[], { store, experimentId, scorers, mayGoOn }: Options) {
  const byName = new Map(scorers.map((scorer) => [scorer.name, scorer]));
  const outcomes = new Map<LabeledRow, Outcome>();
  /** The server failed on these (500), and has taken no label since. It may be the server's fault. */
  const suspects = new Map<LabeledRow, Error>();
  let failedInARow = 0;

  /** @throws the error, if it may concern every label */
  const isRefused = async (error: Error): Promise<boolean> => {
    failedInARow += 1;
    if (failedInARow >= FAILURES_IN_A_ROW) throw error;
    if (error instanceof MlflowRefusedError) await store.getExperiment(experimentId);
    return error instanceof MlflowRefusedError;
  };
  const writeTo = async (trace: StoredTrace, labels: readonly Wanted[], onFailure: OnFailure): Promise<void> => {
    const [only, ...others] = labels;
    if (only === undefined) return;
    try {
      const assessments = labels.map(({ assessment }) => assessment);
      const result = await store.writeAssessments(trace, assessments);
      for (const { row, assessment } of labels) outcomes.set(row, outcomeOf(result, assessment));
      failedInARow = 0;
    } catch (error) {
      if (!mayBeTheLabel(error)) throw error;
      // Written one by one, only the label at fault is left out.
      if (others.length > 0) for (const one of labels) await writeTo(trace, [one], onFailure);
      else if (await isRefused(error)) outcomes.set(only.row, 'MlflowRefused');
      else onFailure(only.row, error);
    }
  };
  const writeAll = async (some: readonly LabeledRow[], onFailure: OnFailure): Promise<void> => {
    const wanted = new Map<string, Wanted[]>();
    for (const row of some) {
      const assessment = labelAssessment(row, byName);
      if ('notPublished' in assessment) outcomes.set(row, assessment.notPublished);
      else wanted.set(row.traceId, [...(wanted.get(row.traceId) ?? []), { row, assessment }]);
    }
    const existing = recentReads((ids) => store.getTraces(experimentId, ids), [...wanted.keys()], false);
    await forEachConcurrently(CONCURRENT_WRITES, wanted, async ([traceId, labels]) => {
      if (!mayGoOn()) return;
      const [trace] = await existing([traceId], false);
      if (trace === undefined) for (const { row } of labels) outcomes.set(row, 'TraceMissing');
      else await writeTo(trace, labels, onFailure);
    });
  };
  for (const batch of batches(rows, LABELS_PER_BATCH)) {
    if (!mayGoOn()) break;
    await writeAll(batch, (row, error) => suspects.set(row, error));
    if (failedInARow > 0) continue;
    // The server works. A label on which it fails again is at fault itself.
    const again = [...suspects.keys()];
    suspects.clear();
    await writeAll(again, (row) => outcomes.set(row, 'MlflowFailed'));
  }
  return { outcomes, failure: [...suspects.values()][0] };
}

/**
 * Whether the label may be at fault: MLflow refuses labels that it cannot store, and some versions fail on them. Other
 * failures are the server's.
 */
const mayBeTheLabel = (error: unknown): error is Error =>
  (error instanceof MlflowRefusedError && !error.routeMissing) ||
  (error instanceof MlflowRetryableError && error.status === 500);

function outcomeOf({ traceMissing, left = [] }: WriteAssessmentsResult, { assessmentId }: NewAssessment): Outcome {
  if (traceMissing) return 'TraceMissing';
  return left.find((one) => one.assessmentId === assessmentId)?.because ?? 'published';
}
