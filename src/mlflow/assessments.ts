/** Writes verdicts: one request for a trace where the server merges them, else one each. */
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

/** One assessment is cheaper, and safer, as a request of its own than with the whole trace. */
const FEWEST_TO_EMBED = 2;

/**
 * A judge has many captures under way; the server must not have as many writes. MLflow's database pool has 15
 * connections, and SQLite one writer: with 48 posts at once, 100 traces took 94 s and ended in errors of the pool.
 * Ten Lambdas with 2 each are just above the pool, and a post takes some 15 ms: 2 of them are over 100 traces a second.
 */
const WRITES_AT_ONCE = 2;

/**
 * A read as young as this is taken for now. Nothing of these scorers was on the trace then, so that a person had nothing
 * to override; a read for every write costs the server a quarter of its time.
 */
const FRESH_MS = 20_000;

/** The trace came back as a shell, because it was deleted between our read and our post; the shell is deleted again. */
class TraceGone extends Error {}

/** A refusal is looked into by reading again, this often: a twin of this run may change the trace under us once more. */
const MOST_REFUSALS = 2;

export class AssessmentWriter {
  readonly #rest: MlflowRest;
  readonly #probe: CapabilityProbe;
  readonly #fresh: FreshReads;
  readonly #slots = new Semaphore(WRITES_AT_ONCE);

  constructor(rest: MlflowRest, probe: CapabilityProbe) {
    this.#rest = rest;
    this.#probe = probe;
    this.#fresh = new FreshReads(rest, probe);
  }

  async write(trace: StoredTrace, assessments: readonly NewAssessment[]): Promise<WriteAssessmentsResult> {
    if (assessments.length === 0) return { written: [], alreadyThere: [] };
    /** Ids that were sent, with whatever outcome: found to exist, they are ours. */
    const sent = new Set<string>();
    let known: StoredTrace | undefined = trace;
    let stale = await this.#mustReadAgain(trace, assessments);
    let refusals = 0;
    let fewestLeft = Number.POSITIVE_INFINITY;
    for (let attempt = 1; ; attempt += 1) {
      try {
        if (stale) known = await this.#fresh.read(trace.info?.experimentId ?? '', trace.traceId);
        if (known === undefined) return { written: [], alreadyThere: [], traceMissing: true };
        const { alreadyThere, ...plan } = planAssessments(known, assessments);
        const left = plan.create.length + plan.override.length + plan.update.length;
        // Where each verdict is a request, the policy is for each: a failed one must not use up the others' attempts,
        // for then the judge is paid again for what it has answered.
        if (left < fewestLeft) attempt = 1;
        fewestLeft = Math.min(fewestLeft, left);
        const whole = known;
        const written = await this.#slots.run(() => this.#writePlan(whole, plan, sent));
        written.push(...alreadyThere.filter((id) => sent.has(id) && isStored(known, id)));
        return { written, alreadyThere: alreadyThere.filter((id) => !written.includes(id)) };
      } catch (error) {
        stale = true;
        if (error instanceof TraceGone) return { written: [], alreadyThere: [], traceMissing: true };
        // An id that exists is refused (400), and so is what is to be overridden or updated and is gone (404).
        refusals += error instanceof MlflowRefusedError ? 1 : 0;
        if (error instanceof MlflowRefusedError && refusals <= MOST_REFUSALS) continue;
        // Some versions answer 500 to an id that exists.
        if (!(error instanceof MlflowRetryableError)) throw error;
        const wait = waitAfter(this.#rest.retry, attempt, error.retryAfterMs);
        if (wait === undefined) throw error;
        await sleep(wait);
      }
    }
  }

  /**
   * What was read before the judge was asked may be minutes old. Where a write merges, it would make an assessment
   * valid again that a person has overridden meanwhile, and a trace exist again that a person has deleted; where
   * something is replaced, it must still be in force.
   */
  async #mustReadAgain(trace: StoredTrace, assessments: readonly NewAssessment[]): Promise<boolean> {
    const { create, override, update } = planAssessments(trace, assessments);
    if (override.length + update.length > 0) return true;
    if (trace.readAtMs !== undefined && Date.now() - trace.readAtMs < FRESH_MS) return false;
    return create.length >= FEWEST_TO_EMBED && (await this.#probe.get()).mergesTraces;
  }

  /** @returns the ids written */
  async #writePlan(
    trace: StoredTrace,
    { create, override, update }: Omit<AssessmentPlan, 'alreadyThere'>,
    sent: Set<string>,
  ): Promise<string[]> {
    const path = `/api/3.0/mlflow/traces/${trace.traceId}/assessments`;
    for (const { assessmentId } of [...create, ...override, ...update]) sent.add(assessmentId);
    const embeds = create.length >= FEWEST_TO_EMBED && trace.info && (await this.#probe.get()).mergesTraces;
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

  /** Posts the trace with what a post overwrites, and the assessments that it lacks. */
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

/** Every trace has this tag from the start, the shell as well. */
const ARTIFACT_LOCATION_TAG = 'mlflow.artifactLocation';

/** Whether a trace that had these tags has lost them all. */
function isShell(before: readonly string[], now: readonly string[]): boolean {
  const own = before.filter((key) => key !== ARTIFACT_LOCATION_TAG);
  return own.length > 0 && !own.some((key) => now.includes(key));
}

const isStored = (trace: StoredTrace | undefined, id: string): boolean =>
  trace?.assessments.some(({ assessmentId }) => assessmentId === id) ?? false;
