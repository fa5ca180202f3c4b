/** Picks the traces whose labels narrow the interval of a corrected rate most, and marks them. */
import { hash } from 'node:crypto';
import { isPass } from '../judge/scorers/values.ts';
import type { JudgeScorer } from '../judge/types.ts';
import { MlflowRefusedError } from '../mlflow/errors.ts';
import { anyReply } from '../mlflow/replies.ts';
import type { MlflowRest } from '../mlflow/rest.ts';
import { forEachConcurrently } from '../shared/concurrency.ts';
import { PermanentError } from '../shared/errors.ts';
import {
  type AssessedTrace,
  assessedTraces,
  givenBy,
  latestByPerson,
  latestVerdict,
  type TraceQuery,
} from './assessed-traces.ts';
import { type LabelStratum, labelQuotas } from './label-quotas.ts';
import { type LabelPick, labelTag, pickOf } from './label-tag.ts';
import { readLabel } from './labels-file.ts';
import { addToQueue, declinedIn, findQueue, queueOf } from './review-queue.ts';

/** A judged trace. */
interface Candidate {
  traceId: string;
  /** The judge's verdict passes. */
  passed: boolean;
  /** What else is known: whether other scorers passed the reply, and which model judged it. */
  kind: string;
  /** A person's label passes; `null` for labels that are no value of the scorer. Absent: no label. */
  label?: boolean | null;
  isPicked: boolean;
}

/** What was found and picked of one stratum. */
export interface StratumPicks extends LabelStratum {
  name: string;
  waiting: number;
  picked: number;
  /** The part of the stratum that is labelled or picked by now. */
  probability: number;
}

export interface LabelPicks {
  scorer: string;
  strata: StratumPicks[];
  /** Traces that wait for a label, those of earlier picks included. */
  waiting: string[];
  /** The part of `waiting` that was picked now. */
  picked: number;
  /** The id of MLflow's review queue; `null` if the server has no review queues. */
  queue: string | null;
}

interface Options extends TraceQuery {
  scorer: JudgeScorer;
  /** All scorers, for what they say about the same traces. */
  scorers: readonly JudgeScorer[];
  /** How many traces are to wait for a label. */
  next: number;
}

/** A verdict is divided further only into parts of this share of its traces, so that each part gets labels. */
const SMALLEST_PART = 0.1;
const CONCURRENT_WRITES = 4;

/**
 * Makes sure that `next` traces wait for a label of the scorer: picks as many as are missing, by strata, marks them with a tag
 * that keeps their probability, and puts all that wait into a review queue where the server has them.
 *
 * Within a stratum, traces are picked in the order of a hash of their ids, so that a repeated or overlapping call picks the same.
 * A call that was killed is continued by the next one.
 *
 * @throws PermanentError `NothingToLabel` without judged traces, `LabelSchemaUnfit`
 */
export async function pickLabels(rest: Pick<MlflowRest, 'repeat'>, options: Options): Promise<LabelPicks> {
  const { experimentId, scorer, next } = options;
  const candidates = await readCandidates(rest, options);
  const found = await findQueue(rest, experimentId, scorer.name);
  const declined = found === 'no queues' || found.id === undefined ? new Set() : await declinedIn(rest, found.id);
  const isWaiting = ({ isPicked, label, traceId }: Candidate): boolean =>
    isPicked && label === undefined && !declined.has(traceId);
  const groups = strataOf(candidates);
  const strata = [...groups].map(([name, members]) => ({
    name,
    ...countsOf(members),
    waiting: members.filter(isWaiting).length,
  }));
  const waiting = candidates.filter(isWaiting).map(({ traceId }) => traceId);
  const quotas = labelQuotas(strata, Math.max(0, next - waiting.length));
  const picks = [...groups].flatMap(([stratum, members], index) => {
    const { taken = 0, judged = 1 } = strata[index] ?? {};
    const quota = quotas[index] ?? 0;
    const free = members.filter(({ isPicked, label }) => !isPicked && label === undefined);
    const probability = (taken + quota) / judged;
    return inHashOrder(free, scorer.name)
      .slice(0, quota)
      .map(({ traceId }) => ({ traceId, pick: { probability, stratum, picked: new Date().toISOString() } }));
  });
  // The tag comes first: a label without its probability would count as one that nobody picked.
  const all = [...waiting];
  await forEachConcurrently(CONCURRENT_WRITES, picks, async ({ traceId, pick }) => {
    if (await setTag(rest, traceId, scorer.name, pick)) all.push(traceId);
  });
  const queue = found === 'no queues' ? null : await queueOf(rest, experimentId, scorer);
  if (queue !== null && all.length > 0) await addToQueue(rest, queue, all);
  return {
    scorer: scorer.name,
    strata: strata.map((stratum, index) => ({
      ...stratum,
      picked: quotas[index] ?? 0,
      probability: (stratum.taken + (quotas[index] ?? 0)) / stratum.judged,
    })),
    waiting: all,
    picked: all.length - waiting.length,
    queue,
  };
}

async function readCandidates(rest: Pick<MlflowRest, 'repeat'>, options: Options): Promise<Candidate[]> {
  const { scorer, scorers } = options;
  const found: Candidate[] = [];
  let traces = 0;
  for await (const trace of assessedTraces(rest, options)) {
    traces += 1;
    const candidate = candidateOf(trace, scorer, scorers);
    if (candidate !== undefined) found.push(candidate);
  }
  if (found.length > 0) return found;
  throw new PermanentError('NothingToLabel', 'No trace has a verdict of the scorer', {
    got: `${traces} traces`,
    expected: `traces with a verdict of ${scorer.name}; a longer window (--from), or another experiment`,
    where: `experiment ${options.experimentId}`,
  });
}

function candidateOf(
  { trace_id: traceId, assessments, tags }: AssessedTrace,
  scorer: JudgeScorer,
  scorers: readonly JudgeScorer[],
): Candidate | undefined {
  const byName = Map.groupBy(assessments, ({ assessment_name: name }) => name);
  const passOf = (one: JudgeScorer): boolean | undefined => {
    const verdict = latestVerdict(byName.get(one.name) ?? []);
    const value = verdict && readLabel(one.values, givenBy(verdict));
    return value === undefined ? undefined : isPass(one, value);
  };
  const passed = passOf(scorer);
  if (passed === undefined) return undefined;
  const othersPass = scorers.every((one) => one.name === scorer.name || passOf(one) !== false);
  const model = latestVerdict(byName.get(scorer.name) ?? [])?.source.source_id ?? '';
  const people = latestByPerson(byName.get(scorer.name) ?? []).map((given) => readLabel(scorer.values, givenBy(given)));
  const passing = people.filter((label) => label !== undefined && isPass(scorer, label)).length;
  const isClear = !people.includes(undefined) && 2 * passing !== people.length;
  return {
    traceId,
    passed,
    kind: `others ${othersPass ? 'pass' : 'fail'}, ${model}`,
    ...(people.length === 0 ? {} : { label: isClear ? 2 * passing > people.length : null }),
    isPicked: pickOf(tags, scorer.name) !== undefined,
  };
}

/** Divides the traces by verdict, and by what else is known where each part is large enough. */
function strataOf(candidates: readonly Candidate[]): Map<string, Candidate[]> {
  const strata = new Map<string, Candidate[]>();
  for (const [verdict, passed] of [
    ['passes', true],
    ['fails', false],
  ] as const) {
    const members = candidates.filter((candidate) => candidate.passed === passed);
    if (members.length === 0) continue;
    const kinds = [...Map.groupBy(members, ({ kind }) => kind)];
    const isDivided = kinds.every(([, part]) => part.length >= SMALLEST_PART * members.length);
    for (const [kind, part] of isDivided && kinds.length > 1 ? kinds : []) strata.set(`${verdict}, ${kind}`, part);
    if (!isDivided || kinds.length === 1) strata.set(verdict, members);
  }
  return strata;
}

function countsOf(members: readonly Candidate[]): LabelStratum {
  const labelled = members.filter(({ label }) => typeof label === 'boolean');
  return {
    passed: members[0]?.passed ?? true,
    judged: members.length,
    labelled: labelled.length,
    good: labelled.filter(({ label }) => label).length,
    taken: members.filter(({ label, isPicked }) => isPicked || label !== undefined).length,
  };
}

const inHashOrder = (candidates: readonly Candidate[], salt: string): Candidate[] =>
  candidates
    .map((candidate) => ({ candidate, at: hash('sha256', `label\n${salt}\n${candidate.traceId}`) }))
    .toSorted((a, b) => (a.at < b.at ? -1 : 1))
    .map(({ candidate }) => candidate);

/** @returns `false` if a person has deleted the trace in the meantime */
async function setTag(
  rest: Pick<MlflowRest, 'repeat'>,
  traceId: string,
  scorer: string,
  pick: LabelPick,
): Promise<boolean> {
  const json = { key: labelTag(scorer), value: JSON.stringify(pick) };
  try {
    await rest.repeat({ method: 'PATCH', path: `/api/3.0/mlflow/traces/${traceId}/tags`, json }, anyReply);
    return true;
  } catch (error) {
    if (error instanceof MlflowRefusedError && error.errorCode === 'RESOURCE_DOES_NOT_EXIST') return false;
    throw error;
  }
}
