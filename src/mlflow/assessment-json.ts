/**
 * Converts assessments to the JSON of MLflow's REST API.
 * Plans how a label from a file is written to a trace. What a person wrote, edited or deleted in MLflow is never touched.
 */

import { rootSpanIdOf } from '../captures/trace/ids.ts';
import { MAX_METADATA_CHARS } from '../captures/trace/text.ts';
import { LABEL_METADATA, REPLACED_AT } from './assessment-metadata.ts';
import { cutIdentifier, MAX_NAME_CHARS, MAX_RATIONALE_CHARS, storableText } from './limits.ts';
import type { AssessmentValue, LabelLeft, NewAssessment, StoredAssessment, StoredTrace } from './types.ts';

/** Returns the value as MLflow keeps it. */
const storableValue = (value: AssessmentValue | undefined): AssessmentValue | undefined =>
  typeof value === 'string' ? storableText(value, MAX_RATIONALE_CHARS) : value;

/** Returns the field with what the assessment says. */
const content = ({ value, error, isExpectation }: NewAssessment): Record<string, unknown> =>
  isExpectation ? { expectation: { value: storableValue(value) } } : { feedback: feedback({ value, error }) };

const feedback = ({ value, error }: Pick<NewAssessment, 'value' | 'error'>): Record<string, unknown> =>
  error === undefined
    ? { value: storableValue(value) }
    : {
        error: {
          error_code: storableText(error.code, MAX_NAME_CHARS),
          error_message: storableText(error.message, MAX_RATIONALE_CHARS),
        },
      };

const metadata = (assessment: NewAssessment): Record<string, string> =>
  Object.fromEntries(
    Object.entries(assessment.metadata).map(([key, value]) => [key, storableText(value, MAX_METADATA_CHARS)]),
  );

const rationale = ({ rationale: text }: NewAssessment): { rationale?: string } =>
  text === undefined ? {} : { rationale: storableText(text, MAX_RATIONALE_CHARS) };

/** Returns the body for a new assessment. */
export function assessmentJson(assessment: NewAssessment & { overrides?: string }): Record<string, unknown> {
  const time = new Date(assessment.createTimeMs).toISOString();
  return {
    assessment_id: assessment.assessmentId,
    trace_id: assessment.traceId,
    assessment_name: storableText(assessment.name, MAX_NAME_CHARS),
    ...(assessment.spanId === undefined ? {} : { span_id: assessment.spanId }),
    source: { source_type: assessment.sourceType, source_id: storableText(assessment.sourceId, MAX_NAME_CHARS) },
    create_time: time,
    last_update_time: time,
    ...content(assessment),
    ...rationale(assessment),
    metadata: metadata(assessment),
    ...(assessment.overrides === undefined ? {} : { overrides: assessment.overrides }),
    valid: true,
  };
}

/** Returns the body that replaces what the assessment with the same id says: an error by a verdict, or a label by a later one. */
export function assessmentUpdateJson(assessment: NewAssessment): Record<string, unknown> {
  return {
    assessment: {
      assessment_id: assessment.assessmentId,
      trace_id: assessment.traceId,
      ...content(assessment),
      rationale: '',
      ...rationale(assessment),
      metadata: { ...metadata(assessment), [REPLACED_AT]: new Date().toISOString() },
    },
    update_mask: assessment.isExpectation ? 'expectation,metadata' : 'feedback,rationale,metadata',
  };
}

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
