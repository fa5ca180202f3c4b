/**
 * Writes traces that are absent, each with its assessments: by OTLP if the server supports it, otherwise each as a file of
 * spans and a post.
 */
import type { S3Client } from '@aws-sdk/client-s3';
import { RUN_TAG } from '../captures/trace/ids.ts';
import type { TraceRecord } from '../captures/trace/types.ts';
import { forEachConcurrently } from '../core/process/concurrency.ts';
import { withRetries } from '../core/process/retry.ts';
import { batches } from '../core/values/batches.ts';
import { type SpansStore, spansStore } from './artifact-store.ts';
import { deleteTraces } from './delete-traces.ts';
import type { SpansForm } from './encode-spans.ts';
import { isAccessDenied, MlflowRefusedError, notStored } from './errors.ts';
import { lacksSpans, readTraces } from './existing-traces.ts';
import { otlpTrace } from './otlp.ts';
import { recentReads } from './recent-reads.ts';
import type { MlflowRest } from './rest.ts';
import {
  type AssessmentsOf,
  CONCURRENT_REST,
  type Sending,
  TRACES_PER_REQUEST,
  TraceSender,
  type WriteOutcome,
} from './send-traces.ts';
import { traceTags } from './span-attributes.ts';
import { spansFile } from './trace-json.ts';
import type { Experiment, StoredTrace, WriteOptions, WriteTracesResult } from './types.ts';

type ExistingOf = Sending['existing'];
type Confirm = Parameters<TraceSender['byOtlp']>[2];

/** Traces to write. */
interface Task extends Omit<Sending, 'existing'> {
  assessmentsOf: AssessmentsOf;
  /** Whether the caller has just looked for the traces and did not find them. */
  areAbsent: boolean;
}

const NO_ASSESSMENTS: AssessmentsOf = new Map();
const idsOf = (traces: readonly { traceId: string }[]): string[] => traces.map(({ traceId }) => traceId);

export class TraceWriter {
  readonly #rest: MlflowRest;
  readonly #s3: S3Client | undefined;
  readonly #sender: TraceSender;
  /** Whether the server is known to have the route. */
  #hasOtlp = false;

  constructor(rest: MlflowRest, s3?: S3Client) {
    this.#rest = rest;
    this.#s3 = s3;
    this.#sender = new TraceSender(rest);
  }

  /**
   * Writes any number of traces, in batches, each together with its assessments, by trace id. A trace is written only if
   * a read in the last 5 s did not find it. After an unknown outcome it reads before it sends again.
   */
  async write(
    experiment: Experiment,
    given: readonly TraceRecord[],
    assessmentsOf?: AssessmentsOf,
    { areAbsent = assessmentsOf === undefined, assertHeld }: WriteOptions & { areAbsent?: boolean } = {},
  ): Promise<WriteTracesResult> {
    const all = [...new Map(given.map((trace) => [trace.traceId, trace])).values()];
    const traces = all.filter(hasStorableTime);
    const timeless = all.filter((trace) => !hasStorableTime(trace)).map(timeRefusal);
    const task = { experiment, traces, assessmentsOf: assessmentsOf ?? NO_ASSESSMENTS, areAbsent, assertHeld };
    const first = await this.#write(task);
    // MLflow may have refused the assessments alone.
    const again = new Set(idsOf(first.refused).filter((id) => assessmentsOf?.get(id)?.length));
    const isAgain = ({ traceId }: { traceId: string }): boolean => again.has(traceId);
    const bare = { ...task, traces: traces.filter(isAgain), assessmentsOf: NO_ASSESSMENTS, areAbsent: false };
    const second = await this.#write(bare);
    const refused = [...timeless, ...first.refused.filter((refusal) => !isAgain(refusal))];
    return { ...joined([{ ...first, refused }, second]), bare: second.written };
  }

  /**
   * Writes the spans of existing traces if they are missing or incomplete, because an earlier attempt was killed
   * between a trace and its spans, or another run wrote the same records.
   *
   * @returns the traces whose spans MLflow refused. They are deleted, because they cannot be opened.
   */
  async mend(experiment: Experiment, traces: readonly TraceRecord[]): Promise<WriteTracesResult['refused']> {
    if (traces.length === 0) return [];
    const added = await this.#unlessLacking(async () => {
      const stored = await this.#read(experiment, traces);
      const spanless = traces.filter(({ traceId }) => lacksSpans(stored.get(traceId)));
      return this.#addSpans(experiment, spanless);
    });
    if (added !== undefined) return added.result;
    const spans = this.#spansStore(experiment);
    await forEachConcurrently(CONCURRENT_REST, traces, (trace) => spans.mend(trace.traceId, spansFile(trace)));
    return [];
  }

  /** Returns how the server takes spans that are encoded before. */
  async spansForm(experiment: Experiment): Promise<SpansForm> {
    const tried = await this.#unlessLacking(() => this.#tryOtlp(experiment));
    return tried === undefined ? 'file' : 'otlp';
  }

  async #write(task: Task): Promise<WriteOutcome> {
    const { experiment, traces, assessmentsOf } = task;
    if (traces.length === 0) return joined([]);
    if (!(await this.#rest.probe.get()).otlp) return this.#byFiles(task);
    // OTLP takes neither assessments nor a run, and encoded spans have no tags.
    const isPosted = ({ traceId, encoded, sourceRun }: TraceRecord): boolean =>
      encoded !== undefined || sourceRun !== undefined || Boolean(assessmentsOf.get(traceId)?.length);
    const bySpans = { ...task, traces: traces.filter((trace) => !isPosted(trace)), assessmentsOf: NO_ASSESSMENTS };
    const confirm: Confirm = async (batch) => {
      // MLflow takes a request as a whole.
      const last = batch.slice(-1);
      assertStored(last, await this.#read(experiment, last));
    };
    const written = await this.#unlessLacking(async () => {
      const results = [await this.#sender.byOtlp(this.#sending(bySpans), (trace) => otlpTrace(trace), confirm)];
      for (const batch of batches(traces.filter(isPosted), TRACES_PER_REQUEST)) {
        results.push(await this.#byPostAndOtlp({ ...task, traces: batch }));
      }
      return joined(results);
    });
    return written?.result ?? this.#writeRest(task);
  }

  /** Writes as files the spans that one of several servers behind the same name has not accepted by OTLP. */
  async #writeRest(task: Task): Promise<WriteOutcome> {
    const { experiment, traces } = task;
    const stored = await this.#read(experiment, traces);
    const settled = joined([]);
    const spans = this.#spansStore(experiment);
    for (const trace of traces) {
      const found = stored.get(trace.traceId);
      if (found !== undefined) settled[outcomeOf(found, trace, true)].push(trace.traceId);
      if (lacksSpans(found)) await spans.put(trace.traceId, spansFile(trace));
    }
    const absent = traces.filter(({ traceId }) => !stored.has(traceId));
    return joined([settled, await this.#byFiles({ ...task, traces: absent, areAbsent: true })]);
  }

  #byFiles(task: Task): Promise<WriteOutcome> {
    return this.#sender.byPost(this.#sending(task), task.assessmentsOf, this.#spansStore(task.experiment));
  }

  /** Writes traces with their assessments where spans go by OTLP: first a post for each, then the spans of all. */
  async #byPostAndOtlp(task: Task): Promise<WriteOutcome> {
    await this.#tryOtlp(task.experiment);
    const posted = await this.#sender.byPost(this.#sending(task), task.assessmentsOf);
    const written = new Set(posted.written);
    const whole = task.traces.filter(({ traceId }) => written.has(traceId));
    const refused = await this.#addSpans(task.experiment, whole);
    for (const { traceId } of refused) written.delete(traceId);
    return { ...posted, written: [...written], refused: [...posted.refused, ...refused] };
  }

  /**
   * Sends a request without spans, once: a post whose spans are to follow lacks the facts that the server takes from
   * spans.
   */
  async #tryOtlp(experiment: Experiment): Promise<void> {
    if (this.#hasOtlp) return;
    try {
      await withRetries(this.#rest.retry, async () => {
        await this.#rest.waitForRate();
        await this.#sender.sendOtlp(experiment, []);
      });
    } catch (error) {
      // MLflow has the route and reports that there are no spans (400).
      if (!(error instanceof MlflowRefusedError) || error.routeMissing) throw error;
    }
    this.#hasOtlp = true;
  }

  /**
   * Adds the spans of existing traces by OTLP, unless they exist or the trace has been deleted. If a person deletes a
   * trace at the last moment, its spans create it again without tags and assessments. It is then deleted again.
   *
   * @returns the traces whose spans MLflow refused. They are deleted.
   */
  async #addSpans(experiment: Experiment, traces: readonly TraceRecord[]): Promise<WriteTracesResult['refused']> {
    const stored = new Map<string, StoredTrace>();
    const read = async (batch: readonly { traceId: string }[]): Promise<typeof stored> => {
      const found = await this.#read(experiment, batch);
      for (const [id, trace] of found) stored.set(id, trace);
      return found;
    };
    const existing: ExistingOf = async (batch) => {
      const found = await read(batch);
      const others = idsOf(batch).filter((id) => !lacksSpans(found.get(id)));
      return new Map(others.map((id) => [id, 'written']));
    };
    const confirm: Confirm = async (batch) => assertStored(batch, await read(batch));
    const sending = { experiment, traces, existing };
    const { refused } = await this.#sender.byOtlp(sending, (trace) => otlpTrace(trace, false), confirm);
    const isRefused = new Set(idsOf(refused));
    const deleted = traces.filter((trace) => {
      const found = stored.get(trace.traceId);
      return isRefused.has(trace.traceId) ? lacksSpans(found) : isMadeAnew(trace, found);
    });
    await deleteTraces(this.#rest, experiment.id, idsOf(deleted));
    return refused;
  }

  /** Works by OTLP. Returns `undefined` if the server lacks it, which is noted. */
  async #unlessLacking<T>(work: () => Promise<T>): Promise<{ result: T } | undefined> {
    const { probe } = this.#rest;
    if (!(await probe.get()).otlp) return undefined;
    try {
      return { result: await work() };
    } catch (error) {
      if (!this.#lacksOtlp(error)) throw error;
      await probe.lacksOtlp();
      return undefined;
    }
  }

  #lacksOtlp(error: unknown): boolean {
    // A gateway of managed MLflow may deny unknown routes. If access as such is denied, REST is denied as well.
    if (this.#rest.target.kind !== 'url' && isAccessDenied(error)) return true;
    return error instanceof MlflowRefusedError && error.routeMissing;
  }

  #spansStore(experiment: Experiment): SpansStore {
    return spansStore(this.#rest, experiment, this.#s3);
  }

  #read(experiment: Experiment, traces: readonly { traceId: string }[]): Promise<Map<string, StoredTrace>> {
    return readTraces(this.#rest, experiment.id, idsOf(traces));
  }

  /** Adds a function that reads the outcome of existing traces, from recent reads. */
  #sending({ experiment, traces, areAbsent, assertHeld }: Task): Sending {
    const read = (ids: readonly string[]) => readTraces(this.#rest, experiment.id, ids);
    const existingOf = recentReads(read, idsOf(traces), areAbsent);
    const ours = new Map(traces.map((trace) => [trace.traceId, trace]));
    const existing: ExistingOf = async (batch, sent) => {
      const stored = await existingOf(idsOf(batch), sent);
      return new Map(stored.map((found) => [found.traceId, outcomeOf(found, ours.get(found.traceId), sent)]));
    };
    return { experiment, traces, existing, assertHeld };
  }
}

const joined = (results: readonly WriteOutcome[]): WriteOutcome => ({
  written: results.flatMap(({ written }) => written),
  alreadyThere: results.flatMap(({ alreadyThere }) => alreadyThere),
  refused: results.flatMap(({ refused }) => refused),
});

/** Whether this run or another run has written a trace that was sent: the trace in MLflow names its run. */
const outcomeOf = (stored: StoredTrace, ours: TraceRecord | undefined, sent: boolean): 'written' | 'alreadyThere' =>
  sent && stored.info?.run === ours?.tags[RUN_TAG] ? 'written' : 'alreadyThere';

/** @throws MlflowRetryableError `MlflowNotStored` unless all the traces are there with their spans */
function assertStored(sent: readonly { traceId: string }[], stored: ReadonlyMap<string, StoredTrace>): void {
  const lacking = sent.filter(({ traceId }) => !stored.has(traceId) || lacksSpans(stored.get(traceId)));
  if (lacking.length === 0) return;
  const got = `no spans in ${lacking.length} of ${sent.length} traces that were read back`;
  throw notStored('Spans that were accepted are not in MLflow', got, `POST /v1/traces, trace ${lacking[0]?.traceId}`);
}

/** Whether a trace lacks all tags with which it was posted, because its spans created it again. */
function isMadeAnew(trace: TraceRecord, stored: StoredTrace | undefined): boolean {
  const own = Object.keys(traceTags(trace)).filter((key) => !key.startsWith('mlflow.'));
  return stored?.info !== undefined && own.length > 0 && !own.some((key) => stored.info?.tagKeys.includes(key));
}

/** MLflow stores signed 64-bit nanoseconds, which end on 2262-04-11. */
const LAST_TIME_MS = Number(2n ** 63n / 1_000_000n) - 1;

/** A single trace outside of the range would make MLflow refuse the whole batch. */
const hasStorableTime = (trace: TraceRecord): boolean =>
  [trace, ...trace.spans].every(({ startTimeMs, endTimeMs }) => startTimeMs >= 0 && endTimeMs <= LAST_TIME_MS);

const timeRefusal = (trace: TraceRecord): WriteTracesResult['refused'][number] => ({
  traceId: trace.traceId,
  reason: {
    name: 'MlflowTimeOutOfRange',
    message: `The time is outside MLflow’s range; got: ${trace.startTimeMs} to ${trace.endTimeMs} ms; expected: between 1970 and 2262`,
  },
});
