/** Writes verdicts: one request per trace where the server merges them, otherwise one request per verdict. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Semaphore } from '../shared/concurrency.ts';
import { waitAfter } from '../shared/retry.ts';
import { assessmentJson, assessmentUpdateJson } from './assessment-json.ts';
import type { CapabilityProbe } from './capabilities.ts';
import { deleteTraces } from './delete-traces.ts';
import { MlflowRefusedError, MlflowRetryableError } from './errors.ts';
import { FreshReads } from './fresh-reads.ts';
import { type AssessmentPlan, planAssessments } from './plan-assessments.ts';
import { anyReply, startedTraceReply } from './replies.ts';
import type { MlflowRest } from './rest.ts';
import type { NewAssessment, StoredTrace, WriteAssessmentsResult } from './types.ts';

/** A single assessment is cheaper and safer in a separate request than embedded in the whole trace. */
const MIN_TO_EMBED = 2;

/**
 * The judge has many captures in flight; the server must have far fewer writes. MLflow's database pool has 15 connections,
 * and SQLite one writer: with 48 concurrent posts, 100 traces took 94 s and ended with errors of the pool. Ten Lambdas
 * with 2 posts each are just above the pool. A post takes about 15 ms, so 2 of them write over 100 traces per second.
 */
const CONCURRENT_WRITES = 2;

/**
 * A read younger than this counts as current. The trace had no assessment of these scorers then, so a person had nothing
 * to override. A read before every write would take a quarter of the server's time.
 */
const FRESH_MS = 20_000;

/** The trace was deleted between our read and our post, which recreated it as a shell. The shell is deleted again. */
class TraceGone extends Error {}

/** Refusals after which the trace is read again. Another run on the same captures may have changed it in between. */
const MAX_REFUSALS = 2;

export class AssessmentWriter {
  readonly #rest: MlflowRest;
  readonly #probe: CapabilityProbe;
  readonly #fresh: FreshReads;
  readonly #slots = new Semaphore(CONCURRENT_WRITES);

  constructor(rest: MlflowRest, probe: CapabilityProbe) {
    this.#rest = rest;
    this.#probe = probe;
    this.#fresh = new FreshReads(rest, probe);
  }

  async write(trace: StoredTrace, assessments: readonly NewAssessment[]): Promise<WriteAssessmentsResult> {
    if (assessments.length === 0) return { written: [], alreadyThere: [] };
    /** The ids that were sent, with any outcome. If one of them exists later, this call wrote it. */
    const sent = new Set<string>();
    let known: StoredTrace | undefined = trace;
    let stale = await this.#mustReadAgain(trace, assessments);
    let refusals = 0;
    let fewestRemaining = Number.POSITIVE_INFINITY;
    for (let attempt = 1; ; attempt += 1) {
      try {
        if (stale) known = await this.#fresh.read(trace.info?.experimentId ?? '', trace.traceId);
        if (known === undefined) return { written: [], alreadyThere: [], traceMissing: true };
        const { alreadyThere, ...plan } = planAssessments(known, assessments);
        const remaining = plan.create.length + plan.override.length + plan.update.length;
        // Where each verdict is a request, the policy applies to each. A failed verdict must not use up the attempts of
        // the others, because the judge would be paid again for answers that it has given.
        if (remaining < fewestRemaining) attempt = 1;
        fewestRemaining = Math.min(fewestRemaining, remaining);
        const whole = known;
        const written = await this.#slots.run(() => this.#writePlan(whole, plan, sent));
        written.push(...alreadyThere.filter((id) => sent.has(id) && isStored(known, id)));
        return { written, alreadyThere: alreadyThere.filter((id) => !written.includes(id)) };
      } catch (error) {
        stale = true;
        if (error instanceof TraceGone) return { written: [], alreadyThere: [], traceMissing: true };
        // MLflow refuses an id that exists (400), and the override or update of an assessment that is gone (404).
        refusals += error instanceof MlflowRefusedError ? 1 : 0;
        if (error instanceof MlflowRefusedError && refusals <= MAX_REFUSALS) continue;
        // Some versions return 500 for an id that exists.
        if (!(error instanceof MlflowRetryableError)) throw error;
        const wait = waitAfter(this.#rest.retry, attempt, error.retryAfterMs);
        if (wait === undefined) throw error;
        await sleep(wait);
      }
    }
  }

  /**
   * Whether the trace must be read again before the write: it was read before the judge was asked, which may be minutes
   * ago. A merging write would revalidate an assessment that a person has overridden since, and recreate a trace that a
   * person has deleted. An assessment that is replaced must still be valid.
   */
  async #mustReadAgain(trace: StoredTrace, assessments: readonly NewAssessment[]): Promise<boolean> {
    const { create, override, update } = planAssessments(trace, assessments);
    if (override.length + update.length > 0) return true;
    if (trace.readAtMs !== undefined && Date.now() - trace.readAtMs < FRESH_MS) return false;
    return create.length >= MIN_TO_EMBED && (await this.#probe.get()).mergesTraces;
  }

  /** @returns the ids written */
  async #writePlan(
    trace: StoredTrace,
    { create, override, update }: Omit<AssessmentPlan, 'alreadyThere'>,
    sent: Set<string>,
  ): Promise<string[]> {
    const path = `/api/3.0/mlflow/traces/${trace.traceId}/assessments`;
    for (const { assessmentId } of [...create, ...override, ...update]) sent.add(assessmentId);
    const embeds = create.length >= MIN_TO_EMBED && trace.info && (await this.#probe.get()).mergesTraces;
    if (embeds) await this.#embed(trace, create);
    for (const assessment of embeds ? override : [...create, ...override]) {
      await this.#rest.once({ method: 'POST', path, json: { assessment: assessmentJson(assessment) } }, anyReply);
    }
    for (const assessment of update) {
      const json = assessmentUpdateJson(assessment);
      await this.#rest.once({ method: 'PATCH', path: `${path}/${assessment.assessmentId}`, json }, anyReply);
    }
    return [...create, ...override, ...update].map(({ assessmentId }) => assessmentId);
  }

  /** Posts the trace with the missing assessments, and with the fields that a post would otherwise erase. */
  async #embed(trace: StoredTrace, create: readonly NewAssessment[]): Promise<void> {
    const { info } = trace;
    if (info === undefined) return;
    const traceInfo = {
      trace_id: trace.traceId,
      trace_location: { type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id: info.experimentId } },
      request_time: info.requestTime,
      state: trace.state,
      execution_duration: info.executionDuration,
      client_request_id: info.clientRequestId,
      assessments: create.map(assessmentJson),
    };
    const call = {
      method: 'POST',
      path: '/api/3.0/mlflow/traces',
      json: { trace: { trace_info: traceInfo } },
    } as const;
    const reply = await this.#rest.once(call, startedTraceReply);
    if (!isShell(info.tagKeys, Object.keys(reply.trace.trace_info.tags))) return;
    const now = await this.#fresh.read(info.experimentId, trace.traceId);
    if (now !== undefined && !isShell(info.tagKeys, now.info?.tagKeys ?? [])) return;
    await deleteTraces(this.#rest, info.experimentId, [trace.traceId]);
    throw new TraceGone();
  }
}

/** MLflow sets this tag on every trace, including a shell. */
const ARTIFACT_LOCATION_TAG = 'mlflow.artifactLocation';

/** Whether a trace has lost all of its earlier tags. */
function isShell(before: readonly string[], now: readonly string[]): boolean {
  const own = before.filter((key) => key !== ARTIFACT_LOCATION_TAG);
  return own.length > 0 && !own.some((key) => now.includes(key));
}

const isStored = (trace: StoredTrace | undefined, id: string): boolean =>
  trace?.assessments.some(({ assessmentId }) => assessmentId === id) ?? false;
