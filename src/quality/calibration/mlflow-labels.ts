/** Reads labels and verdicts from MLflow: people's and the judge's assessments of the same traces. */

import { MIN_LABELS } from '../../core/statistics/corrected-share.ts';
import { readLabel, type ScorerValues } from '../../core/values/scorer-values.ts';
import { isPass } from '../../judge/scorers/values.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import { MlflowRefusedError } from '../../mlflow/errors.ts';
import type { MlflowRest } from '../../mlflow/rest.ts';
import { type AssessmentValue, SCORER_VERSION } from '../../mlflow/types.ts';
import { partOf } from '../sample.ts';
import { hourOf } from '../tally.ts';
import {
  type AssessedTrace,
  assessedTraces,
  firstVerdictMs,
  givenBy,
  JudgedParts,
  latestByPerson,
  latestVerdict,
  type ReadAssessment,
  type TraceQuery,
} from './assessed-traces.ts';
import { type JudgedTrace, type Matches, weighPicked } from './label-weights.ts';
import { pickOf } from './pick-labels.ts';
import { guessValues } from './report.ts';
import type { CoveredPart, LabeledVerdict, Unanswered } from './types.ts';

interface MlflowLabels {
  pairs: LabeledVerdict[];
  unanswered: Unanswered[];
  /** Number of traces that were read. */
  traces: number;
  /** By scorer whose labels speak for a part of its judged traces: which part. */
  covered: Map<string, CoveredPart[]>;
}

interface ReadOptions extends TraceQuery {
  scorers: readonly Pick<JudgeScorer, 'name' | 'values' | 'passes'>[];
  /** Only these scorers. Default: all that both a person and a judge have assessed. */
  only?: readonly string[] | undefined;
  /** Only verdicts of this judge, for example `bedrock:/…`. */
  judge?: string | undefined;
}

type Rest = Pick<MlflowRest, 'repeat'>;

/** Reads all traces of the experiment that match the query. */
export async function readMlflowLabels(rest: Rest, options: ReadOptions): Promise<MlflowLabels> {
  const reader = new LabelReader(rest, options);
  let traces = 0;
  for await (const trace of assessedTraces(rest, options)) {
    traces += 1;
    reader.add(trace);
  }
  return { traces, ...(await reader.compare()) };
}

/** A trace that a person has assessed. */
interface Found {
  trace: AssessedTrace;
  scorer: string;
  people: ReadAssessment[];
  verdict: ReadAssessment;
}

/** A judged trace. Most have no label, and nothing else of them is kept. */
interface Judged extends Omit<JudgedTrace, 'passed' | 'isLabelled' | 'pick'> {
  value: unknown;
  variant: string;
  part: string;
  pick: ReturnType<typeof pickOf>;
}

/** Why labels count for nothing. */
export const LEFT_OUT = {
  pickUnreadable:
    'the tag of the pick has no window, since an earlier version wrote it or somebody changed it; `label` over that time takes in those that it can',
  notPicked: 'nobody picked these traces, and others were picked',
  windowOpen: 'the window of the pick has no label of one of the verdicts yet, or MLflow does not take its filter',
} as const;

class LabelReader {
  readonly #rest: Rest;
  readonly #options: ReadOptions;
  readonly #parts = new JudgedParts();
  readonly #found = new Map<string, Found[]>();
  readonly #judged = new Map<string, Judged[]>();

  constructor(rest: Rest, options: ReadOptions) {
    this.#rest = rest;
    this.#options = options;
  }

  add(trace: AssessedTrace): void {
    const { only, judge } = this.#options;
    for (const [scorer, own] of Map.groupBy(trace.assessments, ({ assessment_name: name }) => name)) {
      const verdict = only === undefined || only.includes(scorer) ? latestVerdict(own, judge) : undefined;
      if (verdict === undefined) continue;
      const inferenceMs = Date.parse(trace.request_time);
      addTo(this.#judged, scorer, {
        traceId: trace.trace_id,
        inferenceMs,
        seenMs: firstVerdictMs(own),
        value: givenBy(verdict),
        variant: trace.tags.sagemaker_variant_name ?? '',
        part: partOf(verdict.metadata) ?? '',
        weight: this.#parts.add(trace, scorer, verdict),
        pick: pickOf(trace.tags, scorer),
      });
      const people = latestByPerson(own);
      if (people.length > 0) addTo(this.#found, scorer, { trace, scorer, people, verdict });
    }
  }

  async compare(): Promise<Omit<MlflowLabels, 'traces'>> {
    const all: Omit<MlflowLabels, 'traces'> = { pairs: [], unanswered: [], covered: new Map() };
    for (const [scorer, group] of this.#found) {
      const known = this.#options.scorers.find(({ name }) => name === scorer);
      const given = group.flatMap(({ people, verdict }) => [...people, verdict].map(givenBy));
      const values = known?.values ?? guessValues(given.filter(isPlain).map(normalise));
      const pairs: LabeledVerdict[] = [];
      for (const one of group) {
        const pair = pairOf(one, values);
        if ('reason' in pair) all.unanswered.push(pair);
        else pairs.push(pair);
      }
      await this.#weigh({ name: scorer, values, passes: known?.passes }, pairs, all);
    }
    return all;
  }

  /**
   * Adds the labels with their weights. If people labelled what was picked, only that counts: it is known how likely each trace was. Else
   * the labels are presumed to be of random traces.
   */
  async #weigh(
    scorer: Pick<JudgeScorer, 'name' | 'values' | 'passes'>,
    pairs: readonly LabeledVerdict[],
    to: Omit<MlflowLabels, 'traces'>,
  ): Promise<void> {
    const labelled = new Set(pairs.map(({ traceId }) => traceId));
    const judged = (this.#judged.get(scorer.name) ?? []).flatMap((one): (Judged & { passed: boolean })[] => {
      const value = readLabel(scorer.values, one.value);
      return value === undefined ? [] : [{ ...one, passed: isPass(scorer, value) }];
    });
    const traces = judged.map((one) => ({
      ...one,
      pick: one.pick === 'unreadable' ? undefined : one.pick,
      isLabelled: labelled.has(one.traceId),
    }));
    const { weights, covered } = await weighPicked(traces, this.#matches);
    const isByPick = traces.filter(({ pick, isLabelled }) => pick && isLabelled).length >= MIN_LABELS;
    const byTrace = new Map(judged.map((one) => [one.traceId, one]));
    for (const pair of pairs) {
      const { pick, weight } = byTrace.get(pair.traceId ?? '') ?? {};
      const why = pick === 'unreadable' ? 'pickUnreadable' : pick === undefined ? 'notPicked' : 'windowOpen';
      const own = isByPick ? weights.get(pair.traceId ?? '') : pick === 'unreadable' ? undefined : weight?.();
      if (own !== undefined) to.pairs.push({ ...pair, weight: own });
      else to.unanswered.push({ id: pair.id, scorer: scorer.name, reason: why, message: LEFT_OUT[why] });
    }
    if (isByPick && covered.size < judged.length) to.covered.set(scorer.name, coveredParts(judged, covered));
  }

  readonly #matches: Matches = async (filter) => {
    const { experimentId, fromMs, toMs } = this.#options;
    const ids = new Set<string>();
    try {
      for await (const trace of assessedTraces(this.#rest, { experimentId, filter, fromMs, toMs }))
        ids.add(trace.trace_id);
      return ids;
    } catch (error) {
      if (error instanceof MlflowRefusedError) return undefined;
      throw error;
    }
  };
}

function addTo<T>(lists: Map<string, T[]>, name: string, one: T): void {
  const list = lists.get(name);
  if (list === undefined) lists.set(name, [one]);
  else list.push(one);
}

/** Counts judged traces by hour, variant and part of the sample, and those of them that labels speak for. */
function coveredParts(judged: readonly (Judged & { passed: boolean })[], covered: ReadonlySet<string>): CoveredPart[] {
  const dated = judged.filter(({ inferenceMs }) => !Number.isNaN(inferenceMs));
  const groups = Map.groupBy(dated, (one) => JSON.stringify([hourOf(one.inferenceMs), one.variant, one.part]));
  return [...groups].map(([key, members]) => {
    const [hour, variant, sample] = JSON.parse(key) as [string, string, string];
    const own = members.filter(({ traceId }) => covered.has(traceId));
    const captures = own.reduce((sum, one) => sum + one.weight(), 0);
    const passed = own.filter((one) => one.passed).length;
    return { hour, variant, sample, captures, judged: own.length, passed, all: members.length };
  });
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
