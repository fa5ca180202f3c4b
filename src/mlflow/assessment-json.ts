/** Converts assessments to the JSON of MLflow's REST API. */
import { MAX_METADATA_CHARS } from '../captures/trace/text.ts';
import { REPLACED_AT } from './assessment-metadata.ts';
import { MAX_NAME_CHARS, MAX_RATIONALE_CHARS, storableText } from './limits.ts';
import type { AssessmentValue, NewAssessment } from './types.ts';

/** Returns the value as MLflow keeps it. */
export const storableValue = (value: AssessmentValue | undefined): AssessmentValue | undefined =>
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
