/** Decides which values of a scorer are good, and which are failures. */

import type { Severity } from '../../core/values/severity.ts';
import type { AssessmentValue } from '../../mlflow/types.ts';
import type { CodeScorer, JudgeScorer, Scorer } from '../types.ts';

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

type PassingScorer = Pick<JudgeScorer, 'values' | 'passes'>;

/**
 * Returns the good value, or the first of several categories. Returns `undefined` if no value is good, as for a number
 * or a language.
 */
export function goodValue(scorer: PassingScorer | CodeScorer): string | boolean | undefined {
  if (!('values' in scorer)) return scorer.fails === undefined ? undefined : !scorer.fails;
  const { values, passes = 'yes' } = scorer;
  if (values.kind === 'number') return undefined;
  if (values.kind === 'boolean') return passes === 'yes';
  return values.kind === 'categories' ? values.values[0] : passes;
}

/** Whether the scorer has values that count as failures. */
export const canFail = (scorer: Scorer): boolean => goodValue(scorer) !== undefined;

/** Whether the value is not a failure. A number never fails. */
export const isPass = (scorer: PassingScorer, value: AssessmentValue): boolean =>
  scorer.values.kind === 'number' || value === goodValue(scorer);

/** Whether the value means that the reply is bad. A code scorer fails only with the value in its `fails`. */
export const isFailure = (scorer: Scorer, value: AssessmentValue): boolean =>
  scorer.kind === 'code' ? value === scorer.fails : !isPass(scorer, value);

/** The failing shares from which on a scorer without an objective needs a look, and is bad. docs/status.md has the same table. */
const USUAL: Readonly<Record<Severity, readonly number[]>> = { harm: [0.005, 0.02], task: [0.2, 0.5], style: [0.5] };

/** Returns the bounds of the failing share of a scorer; `Infinity` without a bound. */
export function boundsOf(scorer: Scorer): { look: number; bad: number } {
  const [look = Infinity, bad = Infinity] = canFail(scorer) ? (scorer.bounds ?? USUAL[scorer.severity ?? 'task']) : [];
  return { look, bad };
}
