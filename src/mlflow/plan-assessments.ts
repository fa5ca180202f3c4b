/** Which of the assessments are to be written to a trace, and how. A person's word is never touched. */
import type { NewAssessment, StoredAssessment, StoredTrace } from './types.ts';

export interface AssessmentPlan {
  /** Beside what is there. */
  create: NewAssessment[];
  /** In place of the older assessment named in `overrides`, which becomes invalid. */
  override: NewAssessment[];
  /** In place of the error assessment of the same id. */
  update: NewAssessment[];
  alreadyThere: string[];
}

type Step = 'create' | 'override' | 'update' | 'alreadyThere';

export function planAssessments(trace: StoredTrace, assessments: readonly NewAssessment[]): AssessmentPlan {
  const plan: AssessmentPlan = { create: [], override: [], update: [], alreadyThere: [] };
  for (const assessment of assessments) {
    const { step, overrides } = stepFor(trace, assessment);
    if (step === 'alreadyThere') plan.alreadyThere.push(assessment.assessmentId);
    else plan[step].push(overrides === undefined ? assessment : { ...assessment, overrides });
  }
  return plan;
}

function stepFor(trace: StoredTrace, assessment: NewAssessment): { step: Step; overrides?: string } {
  const there: Step = 'alreadyThere';
  const sameName = trace.assessments.filter(({ name }) => name === assessment.name);
  if (sameName.some(({ sourceType }) => sourceType === 'HUMAN')) return { step: there };
  const sameId = trace.assessments.find(({ assessmentId }) => assessmentId === assessment.assessmentId);
  if (sameId) {
    const heals = sameId.valid && isError(sameId) && assessment.error === undefined;
    return { step: heals ? 'update' : there };
  }
  if (assessment.overrides !== undefined) {
    const older = trace.assessments.find(({ assessmentId }) => assessmentId === assessment.overrides);
    // Invalid: another has overridden it meanwhile. An error never takes the place of a verdict.
    return { step: older?.valid && assessment.error === undefined ? 'override' : there };
  }
  const inForce = sameName.filter(({ valid }) => valid);
  if (inForce.some((stored) => !isError(stored))) return { step: there };
  const [failed] = inForce;
  if (failed === undefined) return { step: 'create' };
  // The error is another model's or version's: it is overridden, so that each verdict keeps its own source.
  return assessment.error === undefined ? { step: 'override', overrides: failed.assessmentId } : { step: there };
}

const isError = (stored: StoredAssessment): boolean => stored.errorCode !== undefined;
