/** Finds the traces with the worst verdicts. */

import { type Badness, severestFirst, worstFirst } from '../../src/core/values/severity.ts';
import { badnessOf } from '../../src/judge/scorers/badness.ts';
import type { Scorer } from '../../src/judge/types.ts';
import type { MlflowRest } from '../../src/mlflow/rest.ts';
import { traceUrl } from '../../src/mlflow/trace-url.ts';
import { type AssessedTrace, assessedTraces, type TraceQuery } from '../../src/quality/calibration/assessed-traces.ts';
import type { Objective } from '../../src/quality/objectives.ts';
import { type StandingVerdict, standingVerdicts } from './standing-verdicts.ts';

/** The trace of a bad reply, in place of all with the same request and reply. */
export interface WorstTrace extends Badness {
  /** The newest of the worst traces with this exchange. */
  traceId: string;
  /** MLflow's page of the trace. Absent if the page needs a login through AWS. */
  url?: string | undefined;
  /** Time of the inference, in MLflow's format. */
  time: string;
  variant: string;
  /** Failing traces with the same beginning of request and reply. */
  count: number;
  /** Its failing verdicts, the gravest first. */
  failing: StandingVerdict[];
  /** Number of its verdicts that count. */
  verdicts: number;
  /** The first and last characters of the request, and the first characters of the reply. */
  request: string;
  reply: string;
}

export type WorstTraces = Awaited<ReturnType<typeof readWorst>>;

interface Query extends TraceQuery {
  scorers: readonly Scorer[];
  /** Values of scorers that are neither good nor bad by themselves, such as times, fail by an objective that they miss. */
  objectives?: readonly Objective[];
  /** Restricts the verdicts to these scorers. */
  only?: readonly string[] | undefined;
  limit: number;
  /** The address of MLflow, for links. */
  server?: string | undefined;
}

/**
 * Number of different replies that are kept, so that equal replies are counted even if they are not among the worst
 * yet.
 */
const LEAST_KEPT = 200;

/**
 * Reads all matching traces and returns the worst: most severe failure first, then most causes, then the newest. Traces
 * with the same request and reply are merged. People's assessments override the judge's. Memory is bounded by `limit`.
 */
export async function readWorst(rest: Pick<MlflowRest, 'repeat'>, query: Query) {
  const { scorers, objectives = [], only, limit, experimentId, server } = query;
  const known = new Map(scorers.map((scorer) => [scorer.name, scorer]));
  const most = Math.max(limit, LEAST_KEPT);
  const found = {
    /** Traces that were read. */
    traces: 0,
    /** Number of traces with a verdict. */
    judged: 0,
    /** Number of traces with a failing verdict. */
    failing: 0,
  };
  let kept = new Map<string, WorstTrace>();
  const sorted = () =>
    [...kept].toSorted(([, a], [, b]) => worstFirst(a, b) || Date.parse(b.time) - Date.parse(a.time));
  for await (const trace of assessedTraces(rest, { ...query, newestFirst: true })) {
    found.traces += 1;
    const verdicts = standingVerdicts(trace, known)
      .filter(({ scorer }) => only?.includes(scorer) ?? true)
      .map((verdict) => (misses(verdict, trace, objectives) ? { ...verdict, failed: true, degree: 1 } : verdict));
    if (verdicts.length > 0) found.judged += 1;
    const failing = verdicts
      .filter(({ failed }) => failed)
      .sort((a, b) => severestFirst(a.severity, b.severity) || b.degree - a.degree);
    if (failing.length === 0) continue;
    found.failing += 1;
    const { trace_id: traceId, request_time: time, tags, request_preview: request, response_preview: reply } = trace;
    const one = {
      ...{ traceId, time, request, reply, variant: tags.sagemaker_variant_name ?? '' },
      url: traceUrl(server, experimentId, traceId),
      ...badnessOf(failing.map(({ scorer: name, severity }) => ({ name, severity }))),
      count: 1,
      failing,
      verdicts: verdicts.length,
    };
    // A trace without previews is like no other.
    const key = one.request + one.reply === '' ? one.traceId : JSON.stringify([one.request, one.reply]);
    const same = kept.get(key);
    if (same !== undefined) one.count += same.count;
    // Of equal traces, the newest has been read first.
    if (same !== undefined && worstFirst(same, one) <= 0) same.count = one.count;
    else kept.set(key, one);
    if (kept.size >= 2 * most) kept = new Map(sorted().slice(0, most));
  }
  const worst = sorted().slice(0, limit);
  return { ...found, worst: worst.map(([, one]) => one) };
}

/** Whether the value of a scorer without good or bad values misses an objective for the trace's variant. */
function misses(verdict: StandingVerdict, { tags }: AssessedTrace, objectives: readonly Objective[]): boolean {
  const own = tags.sagemaker_variant_name;
  const isAbout = ({ measure, variant = own }: Objective) => measure.scorer === verdict.scorer && variant === own;
  return verdict.good === null && objectives.some((one) => isAbout(one) && !one.measure.passes(verdict.value));
}
