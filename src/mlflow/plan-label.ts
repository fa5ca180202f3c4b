/** Plans how a label from a file is written to a trace. What a person wrote, edited or deleted in MLflow is never touched. */
import { rootSpanIdOf } from '../captures/trace/ids.ts';
import { storableValue } from './assessment-json.ts';
import { LABEL_METADATA } from './assessment-metadata.ts';
import { cutIdentifier } from './limits.ts';
import type { AssessmentValue, LabelLeft, NewAssessment, StoredAssessment, StoredTrace } from './types.ts';

/** The name of the expectation with the true answer. It is no scorer. */
export const GROUND_TRUTH = 'ground_truth';

/** Returns the metadata by which a later label tells whether a person has edited this one. */
export const labelMetadata = (value: AssessmentValue): Record<string, string> => ({
  [LABEL_METADATA]: cutIdentifier(JSON.stringify(storableValue(value))),
});

export function stepForLabel(
  trace: StoredTrace,
  label: NewAssessment,
): 'create' | 'update' | 'alreadyThere' | LabelLeft {
  const own = trace.assessments.find(({ assessmentId }) => assessmentId === label.assessmentId);
  if (own !== undefined) {
    if (own.valid && own.value === storableValue(label.value)) return 'alreadyThere';
    return own.valid && !isEdited(own) ? 'update' : 'EditedByPerson';
  }
  if (label.wasWritten) return 'DeletedByPerson';
  return trace.assessments.some((other) => other.valid && isSame(trace, other, label)) ? 'WrittenByPerson' : 'create';
}

/** Also when the edit is so young that the times do not show it. */
function isEdited({ isEdited: isChanged, value, metadata }: StoredAssessment): boolean {
  return isChanged === true || value === undefined || labelMetadata(value)[LABEL_METADATA] !== metadata[LABEL_METADATA];
}

/** Whether somebody else has said the same: the true answer of this trace or span, or their own answer to this scorer. */
function isSame({ traceId }: StoredTrace, other: StoredAssessment, label: NewAssessment): boolean {
  if (other.name !== label.name || placeOf(traceId, other) !== placeOf(traceId, label)) return false;
  return label.isExpectation
    ? other.isExpectation === true
    : other.sourceType === 'HUMAN' && other.sourceId === label.sourceId;
}

/** What is about the root span is about the trace. */
const placeOf = (traceId: string, { spanId }: Pick<StoredAssessment, 'spanId'>): string =>
  spanId ?? rootSpanIdOf(traceId);
