/** Labels of a window: people's labels, for corrected rates, and labels that show whether an answer was right. */

import type { LabeledPair } from '../../core/statistics/corrected-share.ts';
import { readLabel } from '../../core/values/scorer-values.ts';
import { canFail, isFailure, isPass } from '../../judge/scorers/values.ts';
import type { JudgeScorer, Scorer } from '../../judge/types.ts';
import { GROUND_TRUTH, labelMetadata } from '../../mlflow/plan-assessments.ts';
import { type AssessmentValue, LABEL_METADATA, RIGHT_METADATA } from '../../mlflow/types.ts';
import { joinedStrata } from '../strata.ts';
import { hourOf } from '../tally.ts';
import {
  type AssessedTrace,
  assessedTraces,
  givenBy,
  JudgedStrata,
  latestVerdict,
  type Rest,
  type VerdictQuery,
} from './assessed-traces.ts';
import { aboutVerdict, readMlflowLabels } from './mlflow-labels.ts';
import type { Coverage, LabeledVerdict } from './types.ts';

/** A label, with the keys for counting its capture. */
export interface WindowLabel extends LabeledPair {
  scorer: string;
  traceId: string;
  /** Hour of the inference, such as `2026-11-20T10`. */
  hour: string;
  variant: string;
  /** The judge and the version of the question. */
  judge: string;
}

export type WindowLabels = Awaited<ReturnType<typeof readWindowLabels>>;

/** Reads the labels of scorers whose values pass or fail. Numbers do neither. */
export async function readWindowLabels(rest: Rest, query: VerdictQuery & { scorers: readonly JudgeScorer[] }) {
  const known = query.scorers.filter(
    ({ name, values }) => values.kind !== 'number' && (query.only?.includes(name) ?? true),
  );
  const { pairs, ...others } = await readMlflowLabels(rest, { ...query, only: known.map(({ name }) => name) });
  const labels = pairs.flatMap((pair): WindowLabel[] => {
    const { inferenceMs = Number.NaN, weight = 1, traceId = '', variant = '', judge = '' } = pair;
    const scorer = known.find(({ name }) => name === pair.scorer);
    if (scorer === undefined || Number.isNaN(inferenceMs)) return [];
    const [passed, label] = [isPass(scorer, pair.verdict), isPass(scorer, pair.label)];
    return [{ scorer: scorer.name, passed, label, weight, traceId, hour: hourOf(inferenceMs), variant, judge }];
  });
  return { labels, ...others };
}

/**
 * Returns a function that divides the labels of a scorer into labels of given hours and variants, and other labels. If
 * several judges gave the verdicts, it returns no other labels, because one judge's errors cannot predict another
 * judge's.
 */
export function labelsByCell(labels: readonly WindowLabel[], covered: ReadonlyMap<string, Coverage[]> = new Map()) {
  const byScorer = Map.groupBy(labels, ({ scorer }) => scorer);
  return (scorer: string, cells: readonly { hour: string; variant: string }[]) => {
    const all = byScorer.get(scorer) ?? [];
    const wanted = new Set(cells.map(({ hour, variant }) => `${hour} ${variant}`));
    const isOwn = ({ hour, variant }: Pick<WindowLabel, 'hour' | 'variant'>): boolean =>
      wanted.has(`${hour} ${variant}`);
    const isOneJudge = new Set(all.map(({ judge }) => judge)).size === 1;
    const own = covered.get(scorer)?.filter(isOwn) ?? [];
    const strata = own.map(({ captures, judged, passed, ...of }) => ({ ...of, counts: { captures, judged, passed } }));
    return {
      labels: all.filter(isOwn),
      others: isOneJudge ? all.filter((label) => !isOwn(label)) : [],
      ...(own.every(({ judged, all }) => judged === all) ? {} : { covered: joinedStrata(strata) }),
    };
  };
}

// ----------------------------------------------------------------------------------------- right and wrong answers
// Compares verdicts with the correctness of the answer, from the labels of a file: does a scorer pass the right
// answers?

/** The form in which verdicts are compared. */
export const RIGHT_VALUES = { kind: 'yes-no' } as const;

/** Returns a pair for each verdict that passes or fails. The label is `yes` if the answer was right, the verdict if it passes. */
export async function readTruthPairs(rest: Rest, options: VerdictQuery & { scorers: readonly Scorer[] }) {
  const scorers = options.scorers.filter((one) => canFail(one) && (options.only?.includes(one.name) ?? true));
  const found: { pair: LabeledVerdict; weight: () => number }[] = [];
  const strata = new JudgedStrata();
  let traces = 0;
  for await (const trace of assessedTraces(rest, options)) {
    traces += 1;
    const label = rightness(trace);
    for (const scorer of scorers) {
      const own = trace.assessments.filter(({ assessment_name: name }) => name === scorer.name);
      const given = latestVerdict(own, options.judge);
      if (given === undefined) continue;
      const weight = strata.add(trace, scorer.name, given);
      const value = readLabel(scorer.kind === 'judge' ? scorer.values : { kind: 'boolean' }, givenBy(given));
      if (label === undefined || value === undefined) continue;
      const verdict = isFailure(scorer, value) ? 'no' : 'yes';
      const pair = { ...aboutVerdict(trace, scorer.name, given), label, verdict, agrees: verdict === label };
      found.push({ pair, weight });
    }
  }
  return { pairs: found.map(({ pair, weight }) => ({ ...pair, weight: weight() })), traces };
}

/**
 * Returns whether the answer was right according to the label. Returns `undefined` if the label does not show it, or if
 * a person has edited the label since.
 */
function rightness({ assessments }: AssessedTrace): string | undefined {
  const truth = assessments.find(
    ({ assessment_name: name, valid, metadata }) => name === GROUND_TRUTH && valid && RIGHT_METADATA in metadata,
  );
  const isAsWritten =
    truth && labelMetadata(givenBy(truth) as AssessmentValue)[LABEL_METADATA] === truth.metadata[LABEL_METADATA];
  return isAsWritten ? truth.metadata[RIGHT_METADATA] : undefined;
}
