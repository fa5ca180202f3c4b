/**
 * Picks traces for labelling, at random among those that the judge passes and those that it fails, and marks them with
 * a tag.
 */

import * as z from 'zod';
import { drawOf } from '../../captures/trace/ids.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { readLabel } from '../../core/values/scorer-values.ts';
import { isPass } from '../../judge/scorers/values.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import { orAbsent } from '../../mlflow/errors.ts';
import { anyReply } from '../../mlflow/replies.ts';
import {
  type AssessedTrace,
  assessedTraces,
  firstVerdictMs,
  givenBy,
  latestByPerson,
  latestVerdict,
  type Rest,
  type TraceQuery,
} from './assessed-traces.ts';
import { addToQueue, declinedIn, findQueue, queueOf } from './review-queue.ts';

/** A judged trace. */
type Candidate = NonNullable<ReturnType<typeof candidateOf>>;

export type LabelPicks = Awaited<ReturnType<typeof pickLabels>>;

interface Options extends TraceQuery {
  scorer: JudgeScorer;
  /** Number of traces that should wait for a label. */
  next: number;
}

const CONCURRENT_WRITES = 4;

/**
 * Ensures that `next` traces wait for a label of the scorer: picks the missing number, marks them with a tag that
 * contains the window and their probability, and puts all waiting traces into a review queue if the server has queues.
 *
 * Traces of a verdict are picked in the order of their numbers, which come from a hash: all traces below a threshold,
 * in any window. So a repeated or overlapping call picks the same traces first, a trace was picked if its number is
 * below the largest threshold of its windows, and the next call continues a call that was killed. Labelled traces below
 * the threshold are marked too, because they are equally random.
 *
 * @throws PermanentError `NothingToLabel` without judged traces, `LabelSchemaUnfit`
 */
export async function pickLabels(rest: Rest, options: Options) {
  const { experimentId, scorer, next } = options;
  const found = await findQueue(rest, experimentId, scorer.name);
  const declined =
    found === 'no queues' || found.id === undefined ? new Set<string>() : await declinedIn(rest, found.id);
  const candidates = await readCandidates(rest, options, declined);
  const waiting = candidates.filter(isWaiting).map(({ traceId }) => traceId);
  const groupOf = (name: (typeof VERDICTS)[number]) => {
    const members = candidates.filter(({ passed }) => verdictOf(passed) === name);
    const picked = members.filter(({ isPicked }) => isPicked).length;
    return { name, members, judged: members.length, picked, open: members.filter(isOpen).length };
  };
  const groups: [ReturnType<typeof groupOf>, ReturnType<typeof groupOf>] = [groupOf('passes'), groupOf('fails')];
  const missing = Math.max(0, next - waiting.length);
  const quotas = labelQuotas(groups, missing);
  const drawn = groups.map((group, index) => {
    const { marked, below } = draw(group.members, quotas[index] ?? 0);
    /** The part that is picked by now, labelled or not. */
    const probability = (group.picked + marked.length) / (group.judged || 1);
    return { ...group, marked, below, probability };
  });
  const [passes = 0, fails = 0] = drawn.map(({ below }) => below);
  const call = { ...windowOf(candidates, options), passes, fails, picked: new Date().toISOString() };
  // Set the tag first: a label without its probability would count as not picked.
  const all = [...waiting];
  for (const { name: verdict, marked, probability } of drawn) {
    await forEachConcurrently(CONCURRENT_WRITES, marked, async (candidate) => {
      const isSet = await setTag(rest, candidate.traceId, scorer.name, { verdict, probability, ...call });
      if (isSet && isUndone(candidate)) all.push(candidate.traceId);
    });
  }
  const queue = found === 'no queues' ? null : await queueOf(rest, experimentId, scorer);
  if (queue !== null && all.length > 0) await addToQueue(rest, queue, all);
  return {
    scorer: scorer.name,
    /** Number of traces found and picked for each verdict. */
    strata: drawn
      .filter(({ judged }) => judged > 0)
      .map(({ name, members, judged, marked, probability }) => ({
        name,
        judged,
        labelled: members.filter(({ isLabelled }) => isLabelled).length,
        waiting: members.filter(isWaiting).length,
        picked: marked.filter(isUndone).length,
        probability,
      })),
    /** Traces that wait for a label, including earlier picks. */
    waiting: all,
    /** The part of `waiting` that was picked now. */
    picked: all.length - waiting.length,
    /** The id of MLflow's review queue; `null` if the server has no review queues. */
    queue,
  };
}

const isUndone = ({ isLabelled, isDeclined }: Candidate): boolean => !isLabelled && !isDeclined;
const isWaiting = (one: Candidate): boolean => one.isPicked && isUndone(one);
const isOpen = (one: Candidate): boolean => !one.isPicked && isUndone(one);

/** Numbers of judged traces of a verdict: all, already picked, and available for picking. */
type VerdictCounts = Record<'judged' | 'picked' | 'open', number>;

/**
 * Returns how many passing and how many failing traces to pick. Half of all picks together follow the proportions of
 * the verdicts, and the other half is even, because the rarer verdict has the judge's most frequent errors.
 */
export function labelQuotas([passes, fails]: [VerdictCounts, VerdictCounts], missing: number): [number, number] {
  const share = 1 / 4 + fails.judged / (passes.judged + fails.judged) / 2;
  const wanted = Math.round(share * (passes.picked + fails.picked + missing)) - fails.picked;
  const quota = Math.min(fails.open, missing, Math.max(0, wanted, missing - passes.open));
  return [Math.min(passes.open, missing - quota), quota];
}

/** Returns the available traces with the lowest numbers, and the number below which all traces are picked by now. */
function draw(members: readonly Candidate[], quota: number): { marked: Candidate[]; below: number } {
  if (quota === 0 && members.length > 0) return { marked: [], below: 0 };
  const open = members.filter(isOpen).map((one) => one.draw);
  const below = open.toSorted((a, b) => a - b)[quota] ?? 1;
  return { marked: members.filter((one) => !one.isPicked && one.draw < below), below };
}

/** Returns the window as stored in the tag: the requested window, or from the first trace to the last. */
function windowOf(candidates: readonly Candidate[], { fromMs, toMs, filter }: TraceQuery) {
  const span = (times: number[]): [number, number] =>
    times.reduce(([least, most], ms) => [Math.min(least, ms), Math.max(most, ms)], [Infinity, 0]);
  const [first, last] = span(candidates.map(({ inferenceMs }) => inferenceMs));
  const [, seenMs] = span(candidates.map((one) => one.seenMs));
  const iso = (ms: number): string => new Date(ms).toISOString();
  return { from: iso(fromMs ?? first), to: iso(toMs ?? last + 1), ...(filter && { filter }), seen: iso(seenMs) };
}

async function readCandidates(rest: Rest, options: Options, declined: ReadonlySet<string>): Promise<Candidate[]> {
  const { scorer } = options;
  const found: Candidate[] = [];
  let traces = 0;
  for await (const trace of assessedTraces(rest, options)) {
    traces += 1;
    const candidate = candidateOf(trace, scorer, declined);
    if (candidate !== undefined) found.push(candidate);
  }
  if (found.length > 0) return found;
  throw new PermanentError('NothingToLabel', 'No trace has a verdict of the scorer', {
    got: `${traces} traces`,
    expected: `traces with a verdict of ${scorer.name}; a longer window (--from), or another experiment`,
    where: `experiment ${options.experimentId}`,
  });
}

function candidateOf(trace: AssessedTrace, scorer: JudgeScorer, declined: ReadonlySet<string>) {
  const { trace_id: traceId, tags } = trace;
  const own = trace.assessments.filter(({ assessment_name: name }) => name === scorer.name);
  const verdict = latestVerdict(own);
  const value = verdict && readLabel(scorer.values, givenBy(verdict));
  if (value === undefined) return undefined;
  return {
    traceId,
    /** The judge's verdict passes. */
    passed: isPass(scorer, value),
    isLabelled: latestByPerson(own).length > 0,
    /** A person has declined it in the review queue. */
    isDeclined: declined.has(traceId),
    isPicked: pickOf(tags, scorer.name) !== undefined,
    /** The number for picking, which differs from the number for the scorer's sample. */
    draw: drawOf(traceId, labelTag(scorer.name)),
    inferenceMs: Date.parse(trace.request_time) || 0,
    /** Time of the first verdict. */
    seenMs: firstVerdictMs(own),
  };
}

/** @returns `false` if a person has deleted the trace in the meantime */
async function setTag(rest: Rest, traceId: string, scorer: string, pick: LabelPick): Promise<boolean> {
  const json = { key: labelTag(scorer), value: JSON.stringify(pick) };
  const call = { method: 'PATCH', path: `/api/3.0/mlflow/traces/${traceId}/tags`, json } as const;
  return (await rest.repeat(call, anyReply).then(() => true, orAbsent)) ?? false;
}

// ------------------------------------------------------------------------------------------------------------- tag
// The window that a trace was picked in, and how likely that was.

export const VERDICTS = ['passes', 'fails'] as const;

/** The content of the tag, as JSON. People can edit tags. */
const pickSchema = z.object({
  /** The judge's verdict when the trace was picked. */
  verdict: z.enum(VERDICTS),
  /** The part of the window's judged traces with that verdict that is picked by now. */
  probability: z.number().gt(0).lte(1),
  /** The window of the inferences, from inclusive, to exclusive. */
  from: z.iso.datetime(),
  to: z.iso.datetime(),
  /** MLflow's filter, if only some traces of the window could be picked. */
  filter: z.string().optional(),
  /** The time of the latest verdict that the call saw: traces that were judged after it could not be picked. */
  seen: z.iso.datetime(),
  /** For each verdict: all traces of the window with a number (`drawOf`) below this were picked. */
  passes: z.number().min(0).max(1),
  fails: z.number().min(0).max(1),
  /** Time of the pick. */
  picked: z.string(),
});

export type LabelPick = z.infer<typeof pickSchema>;

export const labelTag = (scorer: string): string => `label_${scorer}`;

/** Returns MLflow's filter for the traces that were picked. */
export const pickedFilter = (scorer: string): string => `tag.\`${labelTag(scorer)}\` LIKE '%probability%'`;

/** Returns how the trace was picked; `undefined` if it was not, or if a person has changed the tag. */
export const pickOf = (tags: Readonly<Record<string, string>>, scorer: string): LabelPick | undefined =>
  pickSchema.safeParse(jsonIn(tags[labelTag(scorer)] ?? '')).data;

export const verdictOf = (passed: boolean): (typeof VERDICTS)[number] => (passed ? 'passes' : 'fails');
