/** Plans which assessments to write to a trace, and how. It never changes a person's assessment. */

import { rootSpanIdOf } from '../captures/trace/ids.ts';
import { fitted } from '../captures/trace/text.ts';
import { storableValue } from './trace-json.ts';
import {
  type AssessmentValue,
  LABEL_METADATA,
  type LabelLeft,
  type NewAssessment,
  type StoredAssessment,
  type StoredTrace,
} from './types.ts';

/** An assessment with the id of the older one that it overrides, which becomes invalid. */
type Overriding = NewAssessment & { overrides: string };

interface AssessmentPlan {
  /** New assessments. */
  create: NewAssessment[];
  override: Overriding[];
  /** Verdicts that replace the error assessment with the same id, and labels that replace an earlier one. */
  update: NewAssessment[];
  alreadyThere: string[];
  /** Verdicts to delete before, since MLflow overrides one of several in force alone. */
  doubles: string[];
  /** Labels that a person does not want, by their ids. */
  left: Map<string, LabelLeft>;
}

type Step = 'create' | 'update' | 'alreadyThere' | { overrides: string; doubles?: readonly StoredAssessment[] };

export function planAssessments(trace: StoredTrace, assessments: readonly NewAssessment[]): AssessmentPlan {
  const plan: AssessmentPlan = { create: [], override: [], update: [], alreadyThere: [], doubles: [], left: new Map() };
  for (const assessment of assessments) {
    const step = assessment.sourceType === 'HUMAN' ? stepForLabel(trace, assessment) : stepFor(trace, assessment);
    if (step === 'alreadyThere') plan.alreadyThere.push(assessment.assessmentId);
    else if (step === 'create' || step === 'update') plan[step].push(assessment);
    else if (typeof step === 'string') plan.left.set(assessment.assessmentId, step);
    else {
      plan.override.push({ ...assessment, overrides: step.overrides });
      plan.doubles.push(...(step.doubles ?? []).map(({ assessmentId }) => assessmentId));
    }
  }
  return plan;
}

function stepFor(trace: StoredTrace, assessment: NewAssessment): Step {
  const sameName = trace.assessments.filter(({ name }) => name === assessment.name);
  if (sameName.some(isByPerson)) return 'alreadyThere';
  const sameId = trace.assessments.find(({ assessmentId }) => assessmentId === assessment.assessmentId);
  if (sameId) {
    const heals = sameId.valid && isError(sameId) && assessment.error === undefined;
    return heals ? 'update' : 'alreadyThere';
  }
  const inForce = sameName.filter(({ valid }) => valid);
  const verdicts = inForce.filter((stored) => !isError(stored));
  if (assessment.replaces) {
    // If no verdict is valid, a person has deleted it since. An error never overrides a verdict.
    if (verdicts.length === 0 || assessment.error !== undefined) return 'alreadyThere';
    // If an assessment is deleted, MLflow restores the assessment that it had overridden.
    const kept = verdicts.find(({ overrides }) => overrides === undefined) ?? verdicts[0];
    return { overrides: kept?.assessmentId ?? '', doubles: verdicts.filter((stored) => stored !== kept) };
  }
  if (verdicts.length > 0) return 'alreadyThere';
  const [failed] = inForce;
  if (failed === undefined) return 'create';
  // The error is from another model or version. Overriding it preserves the source of each verdict.
  return assessment.error === undefined ? { overrides: failed.assessmentId } : 'alreadyThere';
}

/** Whether a person gave an assessment, or has changed it since. */
export const isByPerson = ({ sourceType, isEdited, valid }: StoredAssessment): boolean =>
  sourceType === 'HUMAN' || (isEdited === true && valid);

const isError = (stored: StoredAssessment): boolean => stored.errorCode !== undefined;

// ---------------------------------------------------------------------------------------------- labels from a file
// Assessments that a person wrote, edited or deleted in MLflow are never changed.

/** The name of the expectation with the true answer. It is not the name of a scorer. */
export const GROUND_TRUTH = 'ground_truth';

/** Returns the metadata that shows a later label whether a person has edited this one. */
export const labelMetadata = (value: AssessmentValue): Record<string, string> => ({
  [LABEL_METADATA]: fitted(JSON.stringify(storableValue(value))),
});

function stepForLabel(trace: StoredTrace, label: NewAssessment): 'create' | 'update' | 'alreadyThere' | LabelLeft {
  const own = trace.assessments.find(({ assessmentId }) => assessmentId === label.assessmentId);
  if (own !== undefined) {
    if (own.valid && own.value === storableValue(label.value)) return 'alreadyThere';
    return own.valid && !isEdited(own) ? 'update' : 'EditedByPerson';
  }
  if (label.wasWritten) return 'DeletedByPerson';
  return trace.assessments.some((other) => other.valid && isSame(trace, other, label)) ? 'WrittenByPerson' : 'create';
}

/** Compares values too, because a recent edit may not show in the times. */
function isEdited({ isEdited: isChanged, value, metadata }: StoredAssessment): boolean {
  return isChanged === true || value === undefined || labelMetadata(value)[LABEL_METADATA] !== metadata[LABEL_METADATA];
}

/**
 * Whether another person has given the same kind of label: the true answer of this trace or span, or their own answer
 * to this scorer.
 */
function isSame({ traceId }: StoredTrace, other: StoredAssessment, label: NewAssessment): boolean {
  if (other.name !== label.name || placeOf(traceId, other) !== placeOf(traceId, label)) return false;
  return label.isExpectation
    ? other.isExpectation === true
    : other.sourceType === 'HUMAN' && other.sourceId === label.sourceId;
}

/** A label of the root span counts as a label of the trace. */
const placeOf = (traceId: string, { spanId }: Pick<StoredAssessment, 'spanId'>): string =>
  spanId ?? rootSpanIdOf(traceId);
