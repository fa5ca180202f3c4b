/** Keeps the verdicts on the captures of files, and sums them up by scorer. */

import { wilson } from '../../src/core/statistics/share.ts';
import { addCounts, noCounts } from '../../src/core/values/counts.ts';
import { canFail, isFailure } from '../../src/judge/scorers/values.ts';
import type { JudgeScorer, Scorer } from '../../src/judge/types.ts';
import { JUDGE_COST } from '../../src/mlflow/assessment-metadata.ts';
import type { AssessmentValue, NewAssessment } from '../../src/mlflow/types.ts';
import type { CaptureOutcome } from '../../src/monitoring/evaluate/assess-capture.ts';
import type { JudgeReport } from './reports.ts';

export type VerdictRow = JudgeReport['verdicts'][number];
type RowPlace = Pick<VerdictRow, 'file' | 'line' | 'request' | 'reply'>;
type ScorerSum = JudgeReport['scorers'][number];

/** Values that are counted by name; those of a language have any. */
const MAX_VALUES = 20;
const OTHERS = '(others)';

/** Why a verdict is missing, besides the errors of the judge. */
const HELD = 'held';
const NOT_ASKED = 'notAsked';

export class JudgeBook {
  readonly #scorers: ReadonlyMap<string, Scorer>;
  readonly #rows: VerdictRow[] = [];
  readonly #missing = noCounts();
  readonly #missingOf = noCounts();

  constructor(scorers: readonly Scorer[]) {
    this.#scorers = new Map(scorers.map((scorer) => [scorer.name, scorer]));
  }

  /** @param asked the LLM scorers that apply to the capture */
  add(place: RowPlace, asked: readonly JudgeScorer[], { assessments, held }: CaptureOutcome): void {
    const answered = new Set<string>();
    for (const assessment of assessments) {
      answered.add(assessment.name);
      this.#rows.push({ ...place, ...this.#verdictOf(assessment) });
      if (assessment.error !== undefined) this.#miss(assessment.name, assessment.error.code);
    }
    const open = asked.filter(({ name }) => !answered.has(name));
    for (const { name } of open) this.#miss(name, held > 0 ? HELD : NOT_ASKED);
  }

  #miss(scorer: string, reason: string): void {
    addCounts(this.#missing, { [reason]: 1 });
    addCounts(this.#missingOf, { [scorer]: 1 });
  }

  #verdictOf({ name, value, rationale, error, metadata, sourceType }: NewAssessment): Omit<VerdictRow, keyof RowPlace> {
    // A scorer that failed before it was asked about has no cost.
    const usd = metadata[JUDGE_COST] ?? (sourceType === 'CODE' || error !== undefined ? 0 : undefined);
    const scorer = this.#scorers.get(name);
    const passes = value === undefined || scorer === undefined ? undefined : passesOf(scorer, value);
    return {
      scorer: name,
      ...(value === undefined ? {} : { value }),
      ...(passes === undefined ? {} : { passes }),
      ...(rationale === undefined ? {} : { rationale }),
      ...(error === undefined ? {} : { error }),
      usd: usd === undefined ? null : Number(usd),
    };
  }

  report(): Pick<JudgeReport, 'verdicts' | 'scorers' | 'missing'> {
    const order = [...this.#scorers.keys()];
    // Answers arrive in any order.
    const verdicts = this.#rows.toSorted(
      (a, b) => compare(a.file, b.file) || a.line - b.line || order.indexOf(a.scorer) - order.indexOf(b.scorer),
    );
    const scorers = [...this.#scorers.values()].map((scorer) => {
      const rows = verdicts.filter((verdict) => verdict.scorer === scorer.name);
      return sumOf(scorer, rows, this.#missingOf[scorer.name] ?? 0);
    });
    return { verdicts, scorers, missing: { ...this.#missing } };
  }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Whether the value is no failure; `undefined` if no value of the scorer is one. */
const passesOf = (scorer: Scorer, value: AssessmentValue): boolean | undefined =>
  canFail(scorer) ? !isFailure(scorer, value) : undefined;

function sumOf({ name, kind }: Scorer, rows: readonly VerdictRow[], missing: number): ScorerSum {
  const given = rows.flatMap(({ value }) => value ?? []);
  const decided = rows.filter(({ passes }) => passes !== undefined);
  const numbers = given.filter((value) => typeof value === 'number');
  const values = noCounts();
  for (const value of given) {
    if (typeof value === 'number') continue;
    const named = String(value);
    addCounts(values, { [named in values || Object.keys(values).length < MAX_VALUES ? named : OTHERS]: 1 });
  }
  return {
    name,
    kind,
    verdicts: given.length,
    passes: wilson(decided.filter(({ passes }) => passes).length, decided.length),
    values: { ...values },
    ...(numbers.length > 0 && { numbers: rangeOf(numbers) }),
    missing,
    usd: rows.reduce<number | null>((sum, { usd }) => (sum === null || usd === null ? null : sum + usd), 0),
  };
}

function rangeOf(numbers: readonly number[]): { mean: number; min: number; max: number } {
  const sum = numbers.reduce((total, value) => total + value, 0);
  return { mean: sum / numbers.length, min: Math.min(...numbers), max: Math.max(...numbers) };
}
