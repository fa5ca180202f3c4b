/** A label as MLflow keeps it: the true answer as an expectation, a label for a scorer as a person's assessment. */

import { assessmentIdOf, childSpanIdOf } from '../../captures/trace/ids.ts';
import type { LabeledRow, LabelScorer } from '../../core/contract/ground-truth.ts';
import { readLabel } from '../../core/values/scorer-values.ts';
import { RIGHT_METADATA } from '../../mlflow/assessment-metadata.ts';
import { GROUND_TRUTH, labelMetadata } from '../../mlflow/plan-label.ts';
import type { LabelLeft, NewAssessment } from '../../mlflow/types.ts';
import { textHashes } from '../index/texts.ts';
import { sameLabel } from '../label-value.ts';

/** Who labelled, if the label does not say. */
const SOURCE = 'ground truth';

/** Why a label is not written. `LabelOfRow`: a scorer assesses the whole call, so a label of one row says nothing of its verdict. */
export type NotNoted =
  | LabelLeft
  | 'TraceMissing'
  | 'UnknownScorer'
  | 'NotAValue'
  | 'LabelOfRow'
  | 'MlflowRefused'
  | 'MlflowFailed';

/** Returns what is to be written to MLflow, or why nothing is. @param scorers those of the settings, by name */
export function labelAssessment(
  row: LabeledRow,
  scorers: ReadonlyMap<string, LabelScorer>,
): NewAssessment | { notNoted: NotNoted } {
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
  if (position !== undefined) return { notNoted: 'LabelOfRow' };
  const scorer = scorers.get(row.scorer);
  if (scorer === undefined) return { notNoted: 'UnknownScorer' };
  const value = scorer.values === undefined ? row.label : readLabel(scorer.values, row.label);
  if (value === undefined) return { notNoted: 'NotAValue' };
  const { name } = scorer;
  const assessmentId = assessmentIdOf(traceId, name, 'label', sourceId);
  return { ...base, assessmentId, name, value, metadata: labelMetadata(value) };
}

/**
 * Whether the answer was right, as far as it shows without the other answers: texts by their normalized form, and classes that have
 * a name. A number may be a class, a value or a probability. A scorer assesses the whole call, so rows of a call have none.
 */
function rightness({ row, label, prediction: { text, value } }: LabeledRow): Record<string, string> {
  const isText = text !== undefined;
  if (row !== undefined || !(isText || typeof value === 'string')) return {};
  const isRight = isText ? text[1] === textHashes(String(label))[1] : value !== undefined && sameLabel(value, label);
  return { [RIGHT_METADATA]: isRight ? 'yes' : 'no' };
}
