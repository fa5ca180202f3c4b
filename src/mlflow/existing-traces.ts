/** Reads existing traces and their assessments, and writes verdicts to them. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import { RUN_TAG } from '../captures/trace/ids.ts';
import { forEachConcurrently, Semaphore } from '../core/process/concurrency.ts';
import { waitAfter } from '../core/process/retry.ts';
import { batches } from '../core/values/batches.ts';
import { MlflowRefusedError, MlflowRetryableError } from './errors.ts';
import { planAssessments } from './plan-assessments.ts';
import { type AssessmentReply, anyReply, assessmentReply, searchReply, type TraceInfoReply } from './replies.ts';
import type { Call, MlflowRest } from './rest.ts';
import { assessmentJson, assessmentUpdateJson } from './trace-json.ts';
import {
  type AssessmentValue,
  type NewAssessment,
  REPLACED_AT,
  type StoredAssessment,
  type StoredTrace,
  type WriteAssessmentsResult,
  type WriteOptions,
} from './types.ts';

/**
 * Ids per read, and per page. A filter with 100 ids has 3.7 kB. The reply for 100 traces with 20 assessments each has
 * about 1 MB.
 */
export const IDS_PER_READ = 100;
const CONCURRENT_READS = 2;

export async function readTraces(rest: MlflowRest, experimentId: string, traceIds: readonly string[]) {
  const ids = [...new Set(traceIds)];
  const found = new Map<string, StoredTrace>();
  await forEachConcurrently(CONCURRENT_READS, batches(ids, IDS_PER_READ), async (batch) => {
    const { otlp } = await rest.probe.get();
    for await (const page of searchIds(rest, experimentId, batch)) {
      for (const stored of page.map(storedTrace)) {
        found.set(stored.traceId, otlp && lacksSpans(stored) ? { ...stored, lacksSpans: true } : stored);
      }
    }
  });
  return found;
}

/** Yields the traces with at most `IDS_PER_READ` ids, page by page. */
export const searchIds = (rest: Pick<MlflowRest, 'repeat'>, experimentId: string, ids: readonly string[]) =>
  searchTraces(rest, experimentId, { filter: `request_id IN (${ids.map((id) => `'${id}'`).join(',')})` });

/** Yields the traces of an experiment, page by page. */
export async function* searchTraces(
  rest: Pick<MlflowRest, 'repeat'>,
  experimentId: string,
  query: { filter?: string | undefined; order_by?: string[] },
): AsyncGenerator<TraceInfoReply[]> {
  const locations = [{ type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id: experimentId } }];
  const callOf = (token: PageToken): Call => {
    const json = { locations, max_results: IDS_PER_READ, ...query, ...token };
    return { method: 'POST', path: '/api/3.0/mlflow/traces/search', json };
  };
  for await (const { traces } of pagesOf(rest, searchReply, callOf)) yield traces;
}

type PageToken = { page_token?: string };

/** Yields the pages of a list. @param callOf returns the call for the page behind a token, or for the first */
export async function* pagesOf<Page extends { next_page_token?: string | undefined }>(
  rest: Pick<MlflowRest, 'repeat'>,
  reply: z.ZodType<Page>,
  callOf: (token: PageToken) => Call,
): AsyncGenerator<Page> {
  let next: string | undefined;
  do {
    const page = await rest.repeat(callOf(next ? { page_token: next } : {}), reply);
    yield page;
    next = page.next_page_token;
  } while (next);
}

/** MLflow sets this tag when it stores spans that came by OTLP. */
const SPANS_TAG = 'mlflow.trace.spansLocation';

/** Whether a trace exists without spans sent by OTLP. */
export const lacksSpans = (stored: StoredTrace | undefined): boolean =>
  stored?.info !== undefined && !stored.info.tagKeys.includes(SPANS_TAG);

/** Returns the facts of a trace that a search found. */
export function storedTrace(info: TraceInfoReply): StoredTrace {
  return {
    readAtMs: Date.now(),
    traceId: info.trace_id,
    state: info.state,
    assessments: info.assessments.map(storedAssessment),
    info: {
      experimentId: info.trace_location.mlflow_experiment?.experiment_id ?? '',
      tagKeys: Object.keys(info.tags),
      run: info.tags[RUN_TAG],
    },
  };
}

function storedAssessment(reply: AssessmentReply): StoredAssessment {
  const value = reply.feedback?.value ?? reply.expectation?.value;
  return {
    assessmentId: reply.assessment_id,
    name: reply.assessment_name,
    sourceType: reply.source.source_type,
    sourceId: reply.source.source_id,
    ...(value === undefined || value === null ? {} : { value: value as AssessmentValue }),
    ...(reply.feedback?.error ? { errorCode: reply.feedback.error.error_code } : {}),
    valid: reply.valid,
    ...(reply.overrides ? { overrides: reply.overrides } : {}),
    metadata: reply.metadata,
    ...(reply.expectation ? { isExpectation: true } : {}),
    ...(reply.span_id ? { spanId: reply.span_id } : {}),
    ...(isEdited(reply) ? { isEdited: true } : {}),
  };
}

/** The clocks of the function and of MLflow may differ by this much. */
const CLOCKS_MS = 60_000;

/** An assessment is written with two equal times. MLflow changes the second one when a person, or a verdict, replaces its content. */
function isEdited({ create_time, last_update_time, metadata }: AssessmentReply): boolean {
  const changed = Date.parse(last_update_time);
  const replacedAt = metadata[REPLACED_AT];
  return replacedAt === undefined ? changed > Date.parse(create_time) : changed - Date.parse(replacedAt) > CLOCKS_MS;
}

// -------------------------------------------------------------------------------------------------------- verdicts
// One request per verdict: it can neither overwrite nor revive another verdict.

/**
 * The judge has many captures in flight; the server must have far fewer writes. MLflow's database pool has 15
 * connections, and SQLite one writer: with 48 concurrent posts, 100 traces took 94 s and ended with errors of the pool.
 * Ten Lambdas with 2 posts each are just above the pool. A post takes about 15 ms, so 2 concurrent posts write over 100
 * traces per second.
 */
export const CONCURRENT_WRITES = 2;

/**
 * A read younger than this counts as current. The trace had no assessment of these scorers then, so a person had nothing
 * to override. A read before every write would take a quarter of the server's time.
 */
const FRESH_MS = 20_000;

/** Refusals after which the trace is read again. Another run on the same captures may have changed it in between. */
const MAX_REFUSALS = 2;

/** The progress of this call on the verdicts of a trace; by their ids. */
const noProgress = ({ assertHeld }: WriteOptions) => ({
  /** Sent verdicts, with any outcome. If a sent verdict exists later, this call wrote it. */
  sent: new Set<string>(),
  /** Accepted by MLflow. They are never sent again: a person may have deleted them since. */
  accepted: new Set<string>(),
  fewestRemaining: Number.POSITIVE_INFINITY,
  assertHeld,
});

type Progress = ReturnType<typeof noProgress>;

/**
 * Writes the verdicts of existing traces, one request per verdict: it can neither overwrite nor revive another verdict.
 */
export class AssessmentWriter {
  readonly #rest: MlflowRest;
  readonly #slots = new Semaphore(CONCURRENT_WRITES);

  constructor(rest: MlflowRest) {
    this.#rest = rest;
  }

  async write(
    trace: StoredTrace,
    assessments: readonly NewAssessment[],
    options: WriteOptions = {},
  ): Promise<WriteAssessmentsResult> {
    if (assessments.length === 0) return { written: [], alreadyThere: [] };
    const progress = noProgress(options);
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
   * Writes the missing verdicts of a trace. Reads the trace again first if its last read is too old: it was read before
   * the judge was asked, perhaps minutes ago, and an assessment that is replaced must still be valid.
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
    // Wait first, so that the read is recent when the verdicts are sent.
    for (const _read of reads ? open : []) await this.#rest.waitForRate();
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
      await this.#rest.write({ ...call, hasWaited: reads }, assessmentReply, assessmentId);
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

  /**
   * Deletes verdicts until each scorer that has judged again has only one valid verdict. @returns the trace after that
   */
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
        await this.#rest.waitForRate();
        assertHeld?.();
        await this.#rest.repeat({ method: 'DELETE', path, hasWaited: true }, anyReply);
      }
      known = await this.#read(known);
    }
    return known;
  }

  async #read({ traceId, info }: StoredTrace): Promise<StoredTrace | undefined> {
    return (await readTraces(this.#rest, info?.experimentId ?? '', [traceId])).get(traceId);
  }
}

function isOutdated(trace: StoredTrace, assessments: readonly NewAssessment[]): boolean {
  const { override, update } = planAssessments(trace, assessments);
  if (override.length + update.length > 0) return true;
  return trace.readAtMs !== undefined && !(Date.now() - trace.readAtMs < FRESH_MS);
}

const isStored = (trace: StoredTrace | undefined, id: string): boolean =>
  trace?.assessments.some(({ assessmentId }) => assessmentId === id) ?? false;
