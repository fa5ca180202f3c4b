/**
 * Selects the assessments of a trace that count: for each scorer a person's latest assessment, else its latest verdict.
 */

import { readLabel } from '../../src/core/values/scorer-values.ts';
import type { Severity } from '../../src/core/values/severity.ts';
import { canFail, isFailure } from '../../src/judge/scorers/values.ts';
import type { Scorer } from '../../src/judge/types.ts';
import { GROUND_TRUTH } from '../../src/mlflow/plan-assessments.ts';
import type { AssessmentValue } from '../../src/mlflow/types.ts';
import {
  type AssessedTrace,
  givenBy,
  latestByPerson,
  latestVerdict,
} from '../../src/quality/calibration/assessed-traces.ts';

export interface StandingVerdict {
  scorer: string;
  value: AssessmentValue;
  by: 'person' | 'judge' | 'code';
  /** The person, the judge's model, or the code scorer. */
  source: string;
  /** Empty: without a rationale. */
  rationale: string;
  failed: boolean;
  /** The opposite of `failed`. `null` if the scorer has no good or bad values, or is not in the settings. */
  good: boolean | null;
  /** Severity of a failure of this scorer. */
  severity: Severity;
  /** Degree of the failure, from 0 to 1: of several categories the last is the worst. 0 if it passes. */
  degree: number;
}

const KINDS: Record<string, StandingVerdict['by']> = { HUMAN: 'person', CODE: 'code' };

/**
 * @param scorers of the settings, which define the passing values. For other scorers, `no` and `false` from a judge or
 *   a person fail.
 */
export function standingVerdicts(
  { assessments }: Pick<AssessedTrace, 'assessments'>,
  scorers: ReadonlyMap<string, Scorer>,
): StandingVerdict[] {
  const byScorer = Map.groupBy(assessments, ({ assessment_name }) => assessment_name);
  byScorer.delete(GROUND_TRUTH);
  return [...byScorer].flatMap(([name, given]) => {
    const people = latestByPerson(given);
    const standing = people.length > 0 ? newestOf(people) : latestVerdict(given);
    if (standing === undefined) return [];
    const scorer = scorers.get(name);
    const said = givenBy(standing);
    const value = scorer?.kind === 'judge' ? readLabel(scorer.values, said) : plainValue(said);
    if (value === undefined) return [];
    const by = KINDS[standing.source.source_type] ?? 'judge';
    const failed =
      scorer === undefined ? by !== 'code' && (value === 'no' || value === false) : isFailure(scorer, value);
    const good = failed ? false : scorer !== undefined && canFail(scorer) ? true : null;
    const { source_id: source } = standing.source;
    const degree = failed ? degreeOf(scorer, value) : 0;
    const badness = { failed, good, severity: scorer?.severity ?? 'task', degree };
    return [{ scorer: name, value, by, source, rationale: standing.rationale, ...badness }];
  });
}

const newestOf = (people: ReturnType<typeof latestByPerson>) =>
  people.toSorted((a, b) => (a.last_update_time < b.last_update_time ? 1 : -1))[0];

const plainValue = (value: unknown): AssessmentValue | undefined =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : undefined;

function degreeOf(scorer: Scorer | undefined, value: AssessmentValue): number {
  if (scorer?.kind !== 'judge' || scorer.values.kind !== 'categories') return 1;
  const { values } = scorer.values;
  return values.indexOf(String(value)) / (values.length - 1);
}
