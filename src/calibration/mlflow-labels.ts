/** Reads labels and verdicts from MLflow: people's and the judge's assessments of the same traces. */
import * as z from 'zod';
import type { JudgeScorer, ScorerValues } from '../judge/types.ts';
import { SCORER_VERSION } from '../mlflow/assessment-metadata.ts';
import { assessment } from '../mlflow/replies.ts';
import type { MlflowRest } from '../mlflow/rest.ts';
import type { AssessmentValue } from '../mlflow/types.ts';
import { readLabel } from './labels-file.ts';
import { guessValues } from './report.ts';
import type { LabeledVerdict, Unanswered } from './types.ts';

const assessmentSchema = assessment.extend({
  rationale: z.string().default(''),
  create_time: z.string().default(''),
  last_update_time: z.string().default(''),
});
const searchSchema = z.object({
  traces: z
    .array(
      z.object({
        trace_id: z.string(),
        request_preview: z.string().default(''),
        response_preview: z.string().default(''),
        assessments: z.array(assessmentSchema).default([]),
      }),
    )
    .default([]),
  next_page_token: z.string().optional(),
});
type Assessment = z.infer<typeof assessmentSchema>;
type Trace = z.infer<typeof searchSchema>['traces'][number];

/** Traces per page. Each has about 20 assessments of half a kilobyte. */
const PAGE = 100;

interface MlflowLabels {
  pairs: LabeledVerdict[];
  unanswered: Unanswered[];
  /** Number of traces that were read. */
  traces: number;
}

interface ReadOptions {
  experimentId: string;
  /** MLflow's own filter, for example `tag.sagemaker_variant_name = 'AllTraffic'`. */
  filter?: string | undefined;
  scorers: readonly Pick<JudgeScorer, 'name' | 'values'>[];
  /** Only these scorers. Default: all that both a person and a judge have assessed. */
  only?: readonly string[] | undefined;
  /** Only verdicts of this judge, for example `bedrock:/…`. */
  judge?: string | undefined;
  progress?: (traces: number) => void;
}

/** Reads all traces of the experiment that match the filter, page by page. */
export async function readMlflowLabels(rest: Pick<MlflowRest, 'repeat'>, options: ReadOptions): Promise<MlflowLabels> {
  const found: Found[] = [];
  let traces = 0;
  let pageToken: string | undefined;
  do {
    const json = {
      locations: [{ type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id: options.experimentId } }],
      max_results: PAGE,
      order_by: ['timestamp_ms ASC'],
      filter: options.filter,
      page_token: pageToken,
    };
    const page = await rest.repeat({ method: 'POST', path: '/api/3.0/mlflow/traces/search', json }, searchSchema);
    traces += page.traces.length;
    for (const trace of page.traces) found.push(...assessedBy(trace, options));
    options.progress?.(traces);
    pageToken = page.next_page_token || undefined;
  } while (pageToken !== undefined);
  return { traces, ...compare(found, options) };
}

interface Found {
  trace: Trace;
  scorer: string;
  people: Assessment[];
  verdict: Assessment;
}

const givenBy = ({ feedback, expectation }: Assessment): unknown => feedback?.value ?? expectation?.value;
const timeOf = ({ last_update_time, create_time }: Assessment): number =>
  Date.parse(last_update_time || create_time) || 0;
const newest = (list: readonly Assessment[]): Assessment | undefined =>
  list.toSorted((a, b) => timeOf(b) - timeOf(a))[0];
/** A judge's verdict counts even if a person overrode it, because that is how people correct it. */
const isVerdict = ({ source, feedback }: Assessment): boolean =>
  (source.source_type === 'LLM_JUDGE' || source.source_type === 'CODE') &&
  feedback?.value !== undefined &&
  feedback.value !== null &&
  feedback.error === undefined;

function assessedBy(trace: Trace, { only, judge }: ReadOptions): Found[] {
  const byName = Map.groupBy(trace.assessments, ({ assessment_name }) => assessment_name);
  return [...byName].flatMap(([scorer, assessments]) => {
    if (only !== undefined && !only.includes(scorer)) return [];
    // Each person's latest assessment replaces their earlier ones.
    const human = assessments.filter(
      (a) => a.source.source_type === 'HUMAN' && a.valid && givenBy(a) !== undefined && givenBy(a) !== null,
    );
    const people = [...Map.groupBy(human, ({ source }) => source.source_id).values()].flatMap(
      (own) => newest(own) ?? [],
    );
    const verdict = newest(
      assessments.filter((a) => isVerdict(a) && (judge === undefined || a.source.source_id === judge)),
    );
    return people.length === 0 || verdict === undefined ? [] : [{ trace, scorer, people, verdict }];
  });
}

function compare(found: readonly Found[], { scorers }: ReadOptions): Pick<MlflowLabels, 'pairs' | 'unanswered'> {
  const known = new Map(scorers.map(({ name, values }) => [name, values]));
  for (const [name, group] of Map.groupBy(found, ({ scorer }) => scorer)) {
    if (known.has(name)) continue;
    const given = group.flatMap(({ people, verdict }) => [...people, verdict].map(givenBy));
    known.set(name, guessValues(given.filter(isPlain).map(normalise)));
  }
  const pairs: LabeledVerdict[] = [];
  const unanswered: Unanswered[] = [];
  for (const { trace, scorer, people, verdict } of found) {
    const values = known.get(scorer) as ScorerValues;
    const id = `${trace.trace_id}/${scorer}`;
    const labels = people.map((person) => readLabel(values, givenBy(person)));
    const value = readLabel(values, givenBy(verdict));
    const label = majority(labels);
    if (value === undefined || labels.includes(undefined)) {
      const given = [...people, verdict].map((assessment) => JSON.stringify(givenBy(assessment))).join(', ');
      unanswered.push({ id, scorer, reason: 'unknownValue', message: `${given} are not all values of the scorer` });
    } else if (label === undefined) {
      unanswered.push({ id, scorer, reason: 'peopleDisagree', message: `people said ${labels.join(' and ')}` });
    } else {
      const reason = people.find((person) => readLabel(values, givenBy(person)) === label && person.rationale !== '');
      const version = verdict.metadata[SCORER_VERSION];
      pairs.push({
        id,
        scorer,
        label,
        labelRationale: reason?.rationale,
        verdict: value,
        verdictRationale: verdict.rationale || undefined,
        agrees: label === value,
        traceId: trace.trace_id,
        judge: `${verdict.source.source_id}${version === undefined ? '' : ` version ${version}`}`,
        request: trace.request_preview,
        reply: trace.response_preview,
      });
    }
  }
  return { pairs, unanswered };
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
