/** Plans which assessments to write to a trace, and how. It never changes a person's assessment. */
import { stepForLabel } from './plan-label.ts';
import type { LabelLeft, NewAssessment, StoredAssessment, StoredTrace } from './types.ts';

interface AssessmentPlan {
  /** New assessments. */
  create: NewAssessment[];
  /** Assessments that override the older one named in `overrides`, which becomes invalid. */
  override: NewAssessment[];
  /** Verdicts that replace the error assessment with the same id, and labels that replace an earlier one. */
  update: NewAssessment[];
  alreadyThere: string[];
  /** Labels that a person does not want, by their ids. */
  left: Map<string, LabelLeft>;
}

type Step = 'create' | 'override' | 'update' | 'alreadyThere';

export function planAssessments(trace: StoredTrace, assessments: readonly NewAssessment[]): AssessmentPlan {
  const plan: AssessmentPlan = { create: [], override: [], update: [], alreadyThere: [], left: new Map() };
  for (const assessment of assessments) {
    if (assessment.sourceType === 'HUMAN') {
      const step = stepForLabel(trace, assessment);
      if (step === 'alreadyThere') plan.alreadyThere.push(assessment.assessmentId);
      else if (step === 'create' || step === 'update') plan[step].push(assessment);
      else plan.left.set(assessment.assessmentId, step);
      continue;
    }
    const { step, overrides } = stepFor(trace, assessment);
    if (step === 'alreadyThere') plan.alreadyThere.push(assessment.assessmentId);
    else plan[step].push(overrides === undefined ? assessment : { ...assessment, overrides });
  }
  return plan;
}

function stepFor(trace: StoredTrace, assessment: NewAssessment): { step: Step; overrides?: string } {
  const there: Step = 'alreadyThere';
  const sameName = trace.assessments.filter(({ name }) => name === assessment.name);
  if (sameName.some(isByPerson)) return { step: there };
  const sameId = trace.assessments.find(({ assessmentId }) => assessmentId === assessment.assessmentId);
  if (sameId) {
    const heals = sameId.valid && isError(sameId) && assessment.error === undefined;
    return { step: heals ? 'update' : there };
  }
  if (assessment.overrides !== undefined) {
    const older = trace.assessments.find(({ assessmentId }) => assessmentId === assessment.overrides);
    // An invalid assessment has been overridden since. An error never overrides a verdict.
    return { step: older?.valid && assessment.error === undefined ? 'override' : there };
  }
  const inForce = sameName.filter(({ valid }) => valid);
  if (inForce.some((stored) => !isError(stored))) return { step: there };
  const [failed] = inForce;
  if (failed === undefined) return { step: 'create' };
  // The error is from another model or version. Overriding it preserves the source of each verdict.
  return assessment.error === undefined ? { step: 'override', overrides: failed.assessmentId } : { step: there };
}

/** Whether a person gave an assessment, or has changed it since. */
export const isByPerson = ({ sourceType, isEdited, valid }: StoredAssessment): boolean =>
  sourceType === 'HUMAN' || (isEdited === true && valid);

const isError = (stored: StoredAssessment): boolean => stored.errorCode !== undefined;
