/** Which values of a scorer are failures. */

import type { AssessmentValue } from '../../mlflow/types.ts';
import type { JudgeScorer, Scorer } from '../types.ts';

/** Conditions on a value, all of which must be met. */
interface Condition {
  is?: AssessmentValue | undefined;
  over?: number | undefined;
  under?: number | undefined;
}

export const isMet = ({ is, over, under }: Condition, value: AssessmentValue): boolean =>
  (is === undefined || value === is) &&
  (over === undefined || (typeof value === 'number' && value > over)) &&
  (under === undefined || (typeof value === 'number' && value < under));

/** Whether the value is no failure. The first of several categories is the good one; a number never fails. */
export function isPass({ values, passes = 'yes' }: Pick<JudgeScorer, 'values' | 'passes'>, value: AssessmentValue) {
  if (values.kind === 'number') return true;
  if (values.kind === 'boolean') return value === true;
  return value === (values.kind === 'categories' ? values.values[0] : passes);
}

/** Whether a value of the scorer is a failure. */
export const canFail = (scorer: Scorer): boolean =>
  scorer.kind === 'code' ? scorer.fails !== undefined : scorer.values.kind !== 'number';

/** Whether the value says that the reply is bad. Of a code scorer, only the value that it names does. */
export const isFailure = (scorer: Scorer, value: AssessmentValue): boolean =>
  scorer.kind === 'code' ? value === scorer.fails : !isPass(scorer, value);
