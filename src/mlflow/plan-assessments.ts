/** Plans which assessments to write to a trace, and how. It never changes a person's assessment. */

import { type LabelLeft, type NewAssessment, type StoredAssessment, type StoredTrace, stepForLabel } from './types.ts';

/** An assessment with the id of the older one that it overrides, which becomes invalid. */
export type Overriding = NewAssessment & { overrides: string };

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
    if (assessment.sourceType === 'HUMAN') {
      const step = stepForLabel(trace, assessment);
      if (step === 'alreadyThere') plan.alreadyThere.push(assessment.assessmentId);
      else if (step === 'create' || step === 'update') plan[step].push(assessment);
      else plan.left.set(assessment.assessmentId, step);
      continue;
    }
    const step = stepFor(trace, assessment);
    if (step === 'alreadyThere') plan.alreadyThere.push(assessment.assessmentId);
    else if (typeof step === 'string') plan[step].push(assessment);
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
    // Without a verdict in force a person has deleted it since. An error never overrides a verdict.
    if (verdicts.length === 0 || assessment.error !== undefined) return 'alreadyThere';
    // MLflow restores what a deleted one has overridden.
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
