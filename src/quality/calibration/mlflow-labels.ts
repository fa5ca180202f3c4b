/** Reads labels and verdicts from MLflow: people's and the judge's assessments of the same traces. */

import { MIN_LABELS } from '../../core/statistics/corrected-share.ts';
import { readLabel, type ScorerValues } from '../../core/values/scorer-values.ts';
import { sum } from '../../core/values/sum.ts';
import { isPass } from '../../judge/scorers/values.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import { MlflowRefusedError } from '../../mlflow/errors.ts';
import { type AssessmentValue, SCORER_VERSION } from '../../mlflow/types.ts';
import { stratumOf } from '../sample.ts';
import { hourOf } from '../tally.ts';
import {
  type AssessedTrace,
  assessedTraces,
  firstVerdictMs,
  givenBy,
  JudgedStrata,
  latestByPerson,
  latestVerdict,
  type ReadAssessment,
  type Rest,
  type TraceQuery,
  type VerdictQuery,
} from './assessed-traces.ts';
import { type JudgedTrace, weighPicked } from './label-weights.ts';
import { pickOf } from './pick-labels.ts';
import { guessValues } from './report.ts';
import type { Coverage, LabeledVerdict, Unanswered } from './types.ts';

interface MlflowLabels {
  pairs: LabeledVerdict[];
  unanswered: Unanswered[];
  /** Number of traces that were read. */
  traces: number;
  /** For each scorer whose labels represent some of its judged traces: the strata. */
  covered: Map<string, Coverage[]>;
}

interface ReadOptions extends VerdictQuery {
  scorers: readonly Pick<JudgeScorer, 'name' | 'values' | 'passes'>[];
}

/** Labels and verdicts of a trace. */
interface Labelled {
  trace: AssessedTrace;
  people: ReadAssessment[];
  verdict: ReadAssessment;
}

/** A judged trace. Most traces have no label, and keep no other data. */
interface Judged extends Omit<JudgedTrace, 'passed' | 'isLabelled'> {
  value: unknown;
  variant: string;
  stratum: string;
  labelled: Labelled | undefined;
}

/** Reads all traces of the experiment that match the query. */
export async function readMlflowLabels(rest: Rest, options: ReadOptions): Promise<MlflowLabels> {
  const { only, judge } = options;
  const strata = new JudgedStrata();
  const judged = new Map<string, Judged[]>();
  const all: MlflowLabels = { pairs: [], unanswered: [], traces: 0, covered: new Map() };
  for await (const trace of assessedTraces(rest, options)) {
    all.traces += 1;
    for (const [scorer, own] of Map.groupBy(trace.assessments, ({ assessment_name: name }) => name)) {
      const verdict = only === undefined || only.includes(scorer) ? latestVerdict(own, judge) : undefined;
      if (verdict === undefined) continue;
      const people = latestByPerson(own);
      const list = judged.get(scorer) ?? [];
      judged.set(scorer, list);
      list.push({
        traceId: trace.trace_id,
        inferenceMs: Date.parse(trace.request_time),
        seenMs: firstVerdictMs(own),
        value: givenBy(verdict),
        variant: trace.tags.sagemaker_variant_name ?? '',
        stratum: stratumOf(verdict.metadata) ?? '',
        weight: strata.add(trace, scorer, verdict),
        pick: pickOf(trace.tags, scorer),
        labelled: people.length > 0 ? { trace, people, verdict } : undefined,
      });
    }
  }
  for (const [scorer, own] of judged) {
    if (own.some(({ labelled }) => labelled)) await compare(scorer, own, { rest, options, all });
  }
  return all;
}

/** Reasons for ignoring labels. */
const LEFT_OUT = {
  notPicked: 'these traces were not picked by `label`, and others were',
  windowOpen: 'the window of the pick has no label of one of the verdicts yet, or MLflow does not take its filter',
} as const;

/**
 * Adds the labels of a scorer with their weights. If people labelled picked traces, only their labels count, because
 * the chance of each trace is known. Otherwise the labels are assumed to belong to random traces.
 */
async function compare(
  name: string,
  judged: readonly Judged[],
  { rest, options, all }: { rest: Rest; options: ReadOptions; all: MlflowLabels },
): Promise<void> {
  const known = options.scorers.find((scorer) => scorer.name === name);
  const labelled = judged.flatMap((one) => one.labelled ?? []);
  const given = labelled.flatMap(({ people, verdict }) => [...people, verdict].map(givenBy));
  const values = known?.values ?? guessValues(given.filter(isPlain).map(normalise));
  const pairs = new Map<string, LabeledVerdict>();
  for (const one of labelled) {
    const pair = pairOf(one, name, values);
    if ('reason' in pair) all.unanswered.push(pair);
    else pairs.set(one.trace.trace_id, pair);
  }
  const traces = judged.flatMap((one) => {
    const value = readLabel(values, one.value);
    if (value === undefined) return [];
    const passed = isPass({ values, passes: known?.passes }, value);
    return [{ ...one, passed, isLabelled: pairs.has(one.traceId) }];
  });
  const { weights, covered } = await weighPicked(traces, (filter) => matching(rest, { ...options, filter }));
  const isByPick = traces.filter(({ pick, isLabelled }) => pick && isLabelled).length >= MIN_LABELS;
  for (const { traceId, pick, weight } of traces) {
    const pair = pairs.get(traceId);
    if (pair === undefined) continue;
    const why = pick === undefined ? 'notPicked' : 'windowOpen';
    const own = isByPick ? weights.get(traceId) : weight();
    if (own !== undefined) all.pairs.push({ ...pair, weight: own });
    else all.unanswered.push({ id: pair.id, scorer: name, reason: why, message: LEFT_OUT[why] });
  }
  if (isByPick && covered.size < traces.length) all.covered.set(name, coverageOf(traces, covered));
}

/** Returns the traces that match the filter of a pick; `undefined` if MLflow does not take it. */
async function matching(rest: Rest, { experimentId, filter, fromMs, toMs }: TraceQuery) {
  const ids = new Set<string>();
  try {
    for await (const trace of assessedTraces(rest, { experimentId, filter, fromMs, toMs })) ids.add(trace.trace_id);
    return ids;
  } catch (error) {
    if (error instanceof MlflowRefusedError) return undefined;
    throw error;
  }
}

/** Counts judged traces by hour, variant and stratum, and the traces among them that labels represent. */
function coverageOf(judged: readonly (Judged & { passed: boolean })[], covered: ReadonlySet<string>): Coverage[] {
  const dated = judged.filter(({ inferenceMs }) => !Number.isNaN(inferenceMs));
  const groups = Map.groupBy(dated, (one) => JSON.stringify([hourOf(one.inferenceMs), one.variant, one.stratum]));
  return [...groups].map(([key, members]) => {
    const [hour, variant, sample] = JSON.parse(key) as [string, string, string];
    const own = members.filter(({ traceId }) => covered.has(traceId));
    const captures = sum(own.map((one) => one.weight()));
    const passed = own.filter((one) => one.passed).length;
    return { hour, variant, sample, captures, judged: own.length, passed, all: members.length };
  });
}

function pairOf(
  { trace, people, verdict }: Labelled,
  scorer: string,
  values: ScorerValues,
): LabeledVerdict | Unanswered {
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
  const compared = { label, labelRationale: reason?.rationale, verdict: value, agrees: label === value };
  return { ...aboutVerdict(trace, scorer, verdict), ...compared };
}

/** Returns the facts of a pair about the trace and its verdict. */
export function aboutVerdict(trace: AssessedTrace, scorer: string, verdict: ReadAssessment) {
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

/** Returns the most frequent label. Returns `undefined` for a tie. */
function majority(labels: readonly (AssessmentValue | undefined)[]): AssessmentValue | undefined {
  const groups = [...Map.groupBy(labels, (label) => label).values()].toSorted((a, b) => b.length - a.length);
  const [first = [], second = []] = groups;
  return first.length > second.length ? first[0] : undefined;
}
