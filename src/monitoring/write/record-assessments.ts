/** Writes the assessments of a trace to MLflow, with an error in place of each one that MLflow refuses. */

import { ownFault } from '../../core/errors/own-fault.ts';
import { MlflowRefusedError } from '../../mlflow/errors.ts';
import type { NewAssessment, StoredTrace, TraceStore, WriteAssessmentsResult } from '../../mlflow/types.ts';
import { refusedAssessment } from '../evaluate/assessments.ts';

interface Recorded extends Omit<WriteAssessmentsResult, 'alreadyThere'> {
  /** The assessments as they are in MLflow now, unless the trace is missing. */
  assessments: readonly NewAssessment[];
}

export async function recordAssessments(
  store: Pick<TraceStore, 'writeAssessments'>,
  stored: StoredTrace,
  assessments: readonly NewAssessment[],
  assertHeld?: () => void,
): Promise<Recorded> {
  const [only, ...others] = assessments;
  if (only === undefined) return { assessments, written: [] };
  try {
    return { assessments, ...(await store.writeAssessments(stored, assessments, { assertHeld })) };
  } catch (error) {
    const fault = error instanceof MlflowRefusedError ? `MLflow answered HTTP ${error.status}` : ownFault(error);
    if (fault === undefined) throw error;
    if (others.length === 0) {
      const refused = [refusedAssessment(only, fault)];
      return { assessments: refused, ...(await store.writeAssessments(stored, refused, { assertHeld })) };
    }
  }
  // MLflow refused at least one of them. Written one by one, only that one is affected.
  const total = { assessments: [] as NewAssessment[], written: [] as string[] };
  for (const assessment of assessments) {
    const one = await recordAssessments(store, stored, [assessment], assertHeld);
    if (one.traceMissing) return { ...one, assessments };
    total.assessments.push(...one.assessments);
    total.written.push(...one.written);
  }
  return total;
}
