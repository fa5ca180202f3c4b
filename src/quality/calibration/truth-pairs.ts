/** Reads verdicts beside whether the answer was right, which the label of a file told: does a scorer pass the right answers? */
import { readLabel } from '../../core/values/scorer-values.ts';
import { canFail, isFailure } from '../../judge/scorers/values.ts';
import type { Scorer } from '../../judge/types.ts';
import { LABEL_METADATA, RIGHT_METADATA } from '../../mlflow/assessment-metadata.ts';
import type { MlflowRest } from '../../mlflow/rest.ts';
import { type AssessmentValue, GROUND_TRUTH, labelMetadata } from '../../mlflow/types.ts';
import {
  type AssessedTrace,
  assessedTraces,
  givenBy,
  JudgedParts,
  latestVerdict,
  type TraceQuery,
} from './assessed-traces.ts';
import { aboutVerdict } from './mlflow-labels.ts';
import type { LabeledVerdict } from './types.ts';

interface ReadOptions extends TraceQuery {
  scorers: readonly Scorer[];
  only?: readonly string[] | undefined;
  /** Only verdicts of this judge, for example `bedrock:/…`. */
  judge?: string | undefined;
}

/** What the verdicts are compared as. */
export const RIGHT_VALUES = { kind: 'yes-no' } as const;

/** Returns a pair for each verdict that passes or fails. The label is `yes` if the answer was right, the verdict if it passes. */
export async function readTruthPairs(
  rest: Pick<MlflowRest, 'repeat'>,
  options: ReadOptions,
): Promise<{ pairs: LabeledVerdict[]; traces: number }> {
  const scorers = options.scorers.filter(({ name }) => options.only?.includes(name) ?? true);
  const found: { pair: LabeledVerdict; weight: () => number }[] = [];
  const parts = new JudgedParts();
  let traces = 0;
  for await (const trace of assessedTraces(rest, options)) {
    traces += 1;
    const label = rightness(trace);
    for (const scorer of scorers) {
      const given = latestVerdict(
        trace.assessments.filter(({ assessment_name: name }) => name === scorer.name),
        options.judge,
      );
      if (given === undefined || !canFail(scorer)) continue;
      const weight = parts.add(trace, scorer.name, given);
      const value = readLabel(scorer.kind === 'judge' ? scorer.values : { kind: 'boolean' }, givenBy(given));
      if (label === undefined || value === undefined) continue;
      const verdict = isFailure(scorer, value) ? 'no' : 'yes';
      const pair = { ...aboutVerdict(trace, scorer.name, given), label, verdict, agrees: verdict === label };
      found.push({ pair, weight });
    }
  }
  return { pairs: found.map(({ pair, weight }) => ({ ...pair, weight: weight() })), traces };
}

/** Returns what the label told, `undefined` if nothing or if a person has edited the label since. */
function rightness({ assessments }: AssessedTrace): string | undefined {
  const truth = assessments.find(
    ({ assessment_name: name, valid, metadata }) => name === GROUND_TRUTH && valid && RIGHT_METADATA in metadata,
  );
  const isAsWritten =
    truth && labelMetadata(givenBy(truth) as AssessmentValue)[LABEL_METADATA] === truth.metadata[LABEL_METADATA];
  return isAsWritten ? truth.metadata[RIGHT_METADATA] : undefined;
}
