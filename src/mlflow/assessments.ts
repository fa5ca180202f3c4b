/** Writes the verdicts of traces that exist, one request per verdict: it can neither overwrite nor revive anything. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Semaphore } from '../core/process/concurrency.ts';
import { waitAfter } from '../core/process/retry.ts';
import { assessmentJson, assessmentUpdateJson } from './assessment-json.ts';
import type { CapabilityProbe } from './capabilities.ts';
import { MlflowRefusedError, MlflowRetryableError } from './errors.ts';
import { planAssessments } from './plan-assessments.ts';
import { readTraces } from './read-traces.ts';
import { anyReply, assessmentReply } from './replies.ts';
import type { Call, MlflowRest } from './rest.ts';
import type { NewAssessment, StoredTrace, WriteAssessmentsResult, WriteOptions } from './types.ts';

/**
 * The judge has many captures in flight; the server must have far fewer writes. MLflow's database pool has 15 connections,
 * and SQLite one writer: with 48 concurrent posts, 100 traces took 94 s and ended with errors of the pool. Ten Lambdas
 * with 2 posts each are just above the pool. A post takes about 15 ms, so 2 of them write over 100 traces per second.
 */
export const CONCURRENT_WRITES = 2;

/**
 * A read younger than this counts as current. The trace had no assessment of these scorers then, so a person had nothing
 * to override. A read before every write would take a quarter of the server's time.
 */
const FRESH_MS = 20_000;

/** Refusals after which the trace is read again. Another run on the same captures may have changed it in between. */
const MAX_REFUSALS = 2;

/** What this call has done for the verdicts of a trace so far; by their ids. */
class Progress {
  /** Sent, with any outcome. If one of them exists later, this call wrote it. */
  readonly sent = new Set<string>();
  /** Accepted by MLflow. They are never sent again: a person may have deleted them since. */
  readonly accepted = new Set<string>();
  fewestRemaining = Number.POSITIVE_INFINITY;
  readonly assertHeld: WriteOptions['assertHeld'];

  constructor(assertHeld: WriteOptions['assertHeld']) {
    this.assertHeld = assertHeld;
  }
}

export class AssessmentWriter {
  readonly #rest: MlflowRest;
  readonly #probe: CapabilityProbe;
  readonly #slots = new Semaphore(CONCURRENT_WRITES);

  constructor(rest: MlflowRest, probe: CapabilityProbe) {
    this.#rest = rest;
    this.#probe = probe;
  }

  async write(
    trace: StoredTrace,
    assessments: readonly NewAssessment[],
    { assertHeld }: WriteOptions = {},
  ): Promise<WriteAssessmentsResult> {
    if (assessments.length === 0) return { written: [], alreadyThere: [] };
    const progress = new Progress(assertHeld);
    let refusals = 0;
    for (let attempt = 1, again = false; ; attempt += 1, again = true) {
      const { fewestRemaining } = progress;
      try {
        return await this.#slots.run(() => this.#writeMissing(trace, assessments, progress, again));
      } catch (error) {
        // The policy applies to each verdict. A failed one must not use up the attempts of the others, because the judge
        // would be paid again for answers that it has given.
        if (progress.fewestRemaining < fewestRemaining) attempt = 1;
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
   * Reads the trace if what is known of it is too old: it was read before the judge was asked, which may be minutes ago,
   * and an assessment that is replaced must still be valid. Then writes what is missing.
   */
  async #writeMissing(
    trace: StoredTrace,
    assessments: readonly NewAssessment[],
    progress: Progress,
    again: boolean,
  ): Promise<WriteAssessmentsResult> {
    const { sent, accepted, assertHeld } = progress;
    const open = assessments.filter(({ assessmentId }) => !accepted.has(assessmentId));
    const reads = again || isOutdated(trace, assessments);
    // The turns come first, so that the read is not old when the verdicts are sent.
    for (const _turn of reads ? open : []) await this.#rest.turn();
    const known = await this.#withoutDoubles(reads ? await this.#read(trace) : trace, open, progress);
    if (known === undefined) return { written: [], alreadyThere: [], traceMissing: true };
    const { alreadyThere, create, override, update, left } = planAssessments(known, open);
    const missing = [...create, ...override, ...update];
    progress.fewestRemaining = Math.min(progress.fewestRemaining, missing.length);
    const path = `/api/3.0/mlflow/traces/${trace.traceId}/assessments`;
    for (const assessment of missing) {
      const { assessmentId } = assessment;
      sent.add(assessmentId);
      assertHeld?.();
      const call: Call = update.includes(assessment)
        ? { method: 'PATCH', path: `${path}/${assessmentId}`, json: assessmentUpdateJson(assessment) }
        : { method: 'POST', path, json: { assessment: assessmentJson(assessment) } };
      await this.#rest.write({ ...call, hasTurn: reads }, assessmentReply, assessmentId);
      accepted.add(assessmentId);
    }
    const written = [...accepted, ...alreadyThere.filter((id) => sent.has(id) && isStored(known, id))];
    const notWanted = [...left].map(([assessmentId, because]) => ({ assessmentId, because }));
    return {
      written,
      alreadyThere: alreadyThere.filter((id) => !written.includes(id)),
      ...(notWanted.length > 0 ? { left: notWanted } : {}),
    };
  }

  /** Deletes verdicts until each scorer that has judged anew has one in force. @returns the trace as it is then */
  async #withoutDoubles(
    trace: StoredTrace | undefined,
    assessments: readonly NewAssessment[],
    { assertHeld }: Progress,
  ): Promise<StoredTrace | undefined> {
    let known = trace;
    while (known !== undefined) {
      const { traceId } = known;
      const { doubles } = planAssessments(known, assessments);
      if (doubles.length === 0) break;
      for (const id of doubles) {
        const path = `/api/3.0/mlflow/traces/${traceId}/assessments/${id}`;
        await this.#rest.turn();
        assertHeld?.();
        await this.#rest.repeat({ method: 'DELETE', path, hasTurn: true }, anyReply);
      }
      known = await this.#read(known);
    }
    return known;
  }

  async #read({ traceId, info }: StoredTrace): Promise<StoredTrace | undefined> {
    return (await readTraces(this.#rest, this.#probe, info?.experimentId ?? '', [traceId])).get(traceId);
  }
}

function isOutdated(trace: StoredTrace, assessments: readonly NewAssessment[]): boolean {
  const { override, update } = planAssessments(trace, assessments);
  if (override.length + update.length > 0) return true;
  return trace.readAtMs !== undefined && !(Date.now() - trace.readAtMs < FRESH_MS);
}

const isStored = (trace: StoredTrace | undefined, id: string): boolean =>
  trace?.assessments.some(({ assessmentId }) => assessmentId === id) ?? false;
