/** Reads labels and verdicts from MLflow: people's and the judge's assessments of the same traces. */
import type { JudgeScorer, ScorerValues } from '../judge/types.ts';
import { SCORER_VERSION } from '../mlflow/assessment-metadata.ts';
import type { MlflowRest } from '../mlflow/rest.ts';
import type { AssessmentValue } from '../mlflow/types.ts';
import {
  type AssessedTrace,
  assessedTraces,
  givenBy,
  judgedWeight,
  latestByPerson,
  latestVerdict,
  type ReadAssessment,
  type TraceQuery,
} from './assessed-traces.ts';
import { labelWeights, pickOf } from './label-tag.ts';
import { readLabel } from './labels-file.ts';
import { guessValues } from './report.ts';
import type { LabeledVerdict, Unanswered } from './types.ts';

interface MlflowLabels {
  pairs: LabeledVerdict[];
  unanswered: Unanswered[];
  /** Number of traces that were read. */
  traces: number;
}

interface ReadOptions extends TraceQuery {
  scorers: readonly Pick<JudgeScorer, 'name' | 'values'>[];
  /** Only these scorers. Default: all that both a person and a judge have assessed. */
  only?: readonly string[] | undefined;
  /** Only verdicts of this judge, for example `bedrock:/…`. */
  judge?: string | undefined;
}

/** Reads all traces of the experiment that match the query. */
export async function readMlflowLabels(rest: Pick<MlflowRest, 'repeat'>, options: ReadOptions): Promise<MlflowLabels> {
  const found: Found[] = [];
  const judged = new Judged();
  let traces = 0;
  for await (const trace of assessedTraces(rest, options)) {
    traces += 1;
    found.push(...assessedBy(trace, options, judged));
  }
  return { traces, ...compare(found, options, judged) };
}

interface Found {
  trace: AssessedTrace;
  scorer: string;
  people: ReadAssessment[];
  verdict: ReadAssessment;
}

/** The captures by scorer and verdict, each with the weight of those that were not judged. */
class Judged {
  readonly #captures = new Map<string, Map<string, number>>();

  add(scorer: string, verdict: ReadAssessment): void {
    const ofScorer = this.of(scorer);
    const value = String(givenBy(verdict));
    ofScorer.set(value, (ofScorer.get(value) ?? 0) + judgedWeight(verdict));
    this.#captures.set(scorer, ofScorer);
  }

  of(scorer: string): Map<string, number> {
    return this.#captures.get(scorer) ?? new Map();
  }
}

function assessedBy(trace: AssessedTrace, { only, judge }: ReadOptions, judged: Judged): Found[] {
  const byName = Map.groupBy(trace.assessments, ({ assessment_name }) => assessment_name);
  return [...byName].flatMap(([scorer, assessments]) => {
    if (only !== undefined && !only.includes(scorer)) return [];
    const verdict = latestVerdict(assessments, judge);
    if (verdict === undefined) return [];
    judged.add(scorer, verdict);
    const people = latestByPerson(assessments);
    return people.length === 0 ? [] : [{ trace, scorer, people, verdict }];
  });
}

function compare(
  found: readonly Found[],
  { scorers }: ReadOptions,
  judged: Judged,
): Pick<MlflowLabels, 'pairs' | 'unanswered'> {
  const known = new Map(scorers.map(({ name, values }) => [name, values]));
  const pairs: LabeledVerdict[] = [];
  const unanswered: Unanswered[] = [];
  for (const [scorer, group] of Map.groupBy(found, (one) => one.scorer)) {
    const given = group.flatMap(({ people, verdict }) => [...people, verdict].map(givenBy));
    const values = known.get(scorer) ?? guessValues(given.filter(isPlain).map(normalise));
    const usable: { one: Found; pair: LabeledVerdict }[] = [];
    for (const one of group) {
      const pair = pairOf(one, values);
      if ('reason' in pair) unanswered.push(pair);
      else usable.push({ one, pair });
    }
    const weights = labelWeights(
      usable.map(({ one: { trace, verdict } }) => ({
        pick: pickOf(trace.tags, scorer),
        verdict: String(givenBy(verdict)),
        judgedWeight: judgedWeight(verdict),
      })),
      judged.of(scorer),
    );
    for (const [index, { pair }] of usable.entries()) pairs.push({ ...pair, weight: weights[index] });
  }
  return { pairs, unanswered };
}

function pairOf({ trace, scorer, people, verdict }: Found, values: ScorerValues): LabeledVerdict | Unanswered {
  const id = `${trace.trace_id}/${scorer}`;
  const labels = people.map((person) => readLabel(values, givenBy(person)));
  const value = readLabel(values, givenBy(verdict));
  const label = majority(labels);
  if (value === undefined || labels.includes(undefined)) {
    const given = [...people, verdict].map((assessment) => JSON.stringify(givenBy(assessment))).join(', ');
    return { id, scorer, reason: 'unknownValue', message: `${given} are not all values of the scorer` };
  }
  if (label === undefined) {
    return { id, scorer, reason: 'peopleDisagree', message: `people said ${labels.join(' and ')}` };
  }
  const reason = people.find((person) => readLabel(values, givenBy(person)) === label && person.rationale !== '');
  return {
    ...aboutVerdict(trace, scorer, verdict),
    label,
    labelRationale: reason?.rationale,
    verdict: value,
    agrees: label === value,
  };
}

/** Returns what a pair says of the trace and of its verdict. */
export function aboutVerdict(
  trace: AssessedTrace,
  scorer: string,
  verdict: ReadAssessment,
): Omit<LabeledVerdict, 'label' | 'verdict' | 'agrees'> {
  const version = verdict.metadata[SCORER_VERSION];
  return {
    id: `${trace.trace_id}/${scorer}`,
    scorer,
    verdictRationale: verdict.rationale || undefined,
    traceId: trace.trace_id,
    inferenceMs: Date.parse(trace.request_time),
    variant: trace.tags.sagemaker_variant_name,
    judge: `${verdict.source.source_id}${version === undefined ? '' : ` version ${version}`}`,
    request: trace.request_preview,
    reply: trace.response_preview,
  };
}

const isPlain = (value: unknown): value is AssessmentValue => ['string', 'number', 'boolean'].includes(typeof value);
const normalise = (value: AssessmentValue): AssessmentValue =>
  typeof value === 'string' && /^(yes|no)$/i.test(value.trim()) ? value.trim().toLowerCase() : value;

/** Returns the most frequent label; `undefined` for a tie. */
function majority(labels: readonly (AssessmentValue | undefined)[]): AssessmentValue | undefined {
  const counts = new Map<AssessmentValue | undefined, number>();
  for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1);
  const [first, second] = [...counts].sort((a, b) => b[1] - a[1]);
  return first !== undefined && first[1] > (second?.[1] ?? 0) ? first[0] : undefined;
}
