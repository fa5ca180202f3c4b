/** Sends traces to MLflow: many in an OTLP request, or each in a post, with a file of spans or without. */
import { randomBytes } from 'node:crypto';
import type { TraceRecord } from '../captures/trace/types.ts';
import { saidBy } from '../core/errors/errors.ts';
import { forEachConcurrently, Semaphore } from '../core/process/concurrency.ts';
import type { SpansStore } from './artifact-store.ts';
import { deleteTraces } from './delete-traces.ts';
import { Deliveries, type Delivery } from './deliver.ts';
import { MlflowRefusedError, notStored } from './errors.ts';
import { getExperiment } from './experiments.ts';
import { type OtlpTrace, otlpRequest, rejectedSpans } from './otlp.ts';
import { traceReply } from './replies.ts';
import type { MlflowRest } from './rest.ts';
import { assessmentJson, factsBeforeSpans, spansFile, traceInfo } from './trace-json.ts';
import type { Experiment, NewAssessment, WriteTracesResult } from './types.ts';

/** From about 50 traces per request on, MLflow's time per trace is constant. Smaller batches lose less to a refusal. */
export const TRACES_PER_REQUEST = 100;
/** About 4 MB. Two requests in flight, with texts and bytes, take 4 × 4 = 16 MB. A larger trace is sent alone. */
const SIZE_PER_REQUEST = 4 * 1024 * 1024;
const OTLP_PATH = '/v1/traces';

/** One request is sent while the next is built. Further requests would only wait at a server with one worker. */
const CONCURRENT_OTLP = 2;
/**
 * Posts at a time. Three keep the server busy, also over a network. More only take its processor time: with 16 verdicts a trace, one
 * bare client wrote 44.5 traces a second to an idle 3.17.2, two 42.7, four 40.1 and eight 38.7 (one worker, SQLite).
 */
export const CONCURRENT_REST = 3;
/**
 * If the artifact store is separate, files are put while other traces are posted, so that the server does not wait for
 * the store.
 */
const CONCURRENT_WITH_STORE = 8;

export type WriteOutcome = Omit<WriteTracesResult, 'bare'>;
export type AssessmentsOf = ReadonlyMap<string, readonly NewAssessment[]>;

/** How a set of traces is sent. */
export interface Sending {
  experiment: Experiment;
  traces: readonly TraceRecord[];
  existing: Delivery<{ traceId: string }>['existing'];
  /** Throws if writing is not allowed any more. */
  assertHeld?: (() => void) | undefined;
}

/** A trace that is posted. */
interface PostedTrace {
  traceId: string;
  /** The file of its spans. Without it they follow by OTLP. */
  file?: Buffer;
  info: Record<string, unknown>;
}

type Method<T extends { traceId: string }> = Omit<Delivery<T>, 'retry' | 'limited' | 'control' | 'checkRefusal'> & {
  prepare(trace: TraceRecord): T;
  /** Bounds the requests of all calls together. */
  slots?: Semaphore;
};

export class TraceSender {
  readonly #rest: MlflowRest;
  /** Shared by all calls, because a chunk may write several batches at once. */
  readonly #posts = new Semaphore(CONCURRENT_REST);
  /** Permanently lowered when a gateway refuses a request as too large. */
  #sizePerRequest = SIZE_PER_REQUEST;

  constructor(rest: MlflowRest) {
    this.#rest = rest;
  }

  /**
   * Sends the traces by OTLP, many in a request.
   *
   * @param confirm throws `MlflowNotStored` if the traces of a request do not exist: any OpenTelemetry collector would
   *   give the same reply
   */
  byOtlp(
    sending: Sending,
    prepare: (trace: TraceRecord) => OtlpTrace,
    confirm: (batch: readonly OtlpTrace[]) => Promise<void>,
  ): Promise<WriteOutcome> {
    const method: Method<OtlpTrace> = {
      prepare,
      send: async (batch) => {
        await this.sendOtlp(sending.experiment, batch);
        await confirm(batch);
      },
      existing: sending.existing,
      tooLarge: (batch) => {
        const size = batch.reduce((sum, trace) => sum + trace.size, 0);
        this.#sizePerRequest = Math.min(this.#sizePerRequest, size / 2);
      },
    };
    return this.#deliver(sending, method, (deliveries, prepared) =>
      forEachConcurrently(CONCURRENT_OTLP, this.#batches(prepared), (batch) => deliveries.deliver(batch)),
    );
  }

  /** The caller has waited for the rate limit. */
  async sendOtlp(experiment: Experiment, batch: readonly OtlpTrace[]): Promise<void> {
    const reply = await this.#rest.bytes({
      method: 'POST',
      path: OTLP_PATH,
      bytes: otlpRequest(batch),
      contentType: 'application/x-protobuf',
      headers: { 'x-mlflow-experiment-id': experiment.id },
      hasWaited: true,
    });
    assertAccepted(reply);
  }

  /**
   * Posts each trace with its assessments.
   *
   * @param spans where a file of its spans is put before the trace, so that a visible trace always has its spans.
   *   Without it the spans must follow by OTLP.
   */
  byPost(sending: Sending, assessmentsOf: AssessmentsOf, spans?: SpansStore): Promise<WriteOutcome> {
    const { experiment } = sending;
    const facts = spans ? traceInfo : factsBeforeSpans;
    const put = new Set<string>();
    const atOnce = spans?.served === false ? CONCURRENT_WITH_STORE : CONCURRENT_REST;
    const method: Method<PostedTrace> = {
      slots: this.#posts,
      prepare: (trace) => {
        const assessments = (assessmentsOf.get(trace.traceId) ?? []).map((one) => assessmentJson(one));
        const info = { ...facts(experiment.id, trace), ...(assessments.length > 0 ? { assessments } : {}) };
        return { traceId: trace.traceId, info, ...(spans ? { file: spansFile(trace) } : {}) };
      },
      before:
        spans &&
        (async (batch) => {
          for (const { traceId, file } of batch) {
            put.add(traceId);
            if (file) await spans.put(traceId, file);
          }
        }),
      send: async (batch) => {
        for (const { traceId, info } of batch) {
          const json = { trace: { trace_info: info } };
          const call = { method: 'POST', path: '/api/3.0/mlflow/traces', json, hasWaited: true } as const;
          await this.#rest.write(call, traceReply, traceId);
        }
      },
      existing: async (batch, sent) => {
        const found = await sending.existing(batch, sent);
        // Another run may have written the trace, over a file that an interrupted put of this run left behind.
        for (const { traceId, file } of batch) {
          if (file && put.has(traceId) && found.has(traceId)) await spans?.mend(traceId, file);
        }
        return found;
      },
    };
    return this.#deliver(sending, method, (deliveries, prepared) =>
      forEachConcurrently(atOnce, prepared, (trace) => deliveries.deliver([trace])),
    );
  }

  /** Delivers the traces with `work`, prepares each trace just before, and returns their outcome. */
  async #deliver<T extends { traceId: string }>(
    { experiment, traces, assertHeld }: Sending,
    method: Method<T>,
    work: (deliveries: Deliveries<T>, prepared: Generator<T>) => Promise<void>,
  ): Promise<WriteOutcome> {
    const unwritable: WriteTracesResult['refused'] = [];
    const prepared = function* (): Generator<T> {
      for (const trace of traces) {
        try {
          yield method.prepare(trace);
        } catch (error) {
          // A trace that cannot be serialized is refused, without affecting the others.
          const message = `The trace could not be serialized: ${saidBy(error)}`;
          unwritable.push({ traceId: trace.traceId, reason: { name: 'TraceNotBuilt', message } });
        }
      }
    };
    const controls = controlTraces(this.#rest, experiment);
    const checkRefusal = async () => {
      await getExperiment(this.#rest, experiment.id);
    };
    const { slots = new Semaphore(CONCURRENT_OTLP) } = method;
    const limited = <R>(request: () => Promise<R>): Promise<R> =>
      slots.run(async () => {
        await this.#rest.waitForRate();
        assertHeld?.();
        return request();
      });
    const control = async () => {
      try {
        const trace = method.prepare(controls.make());
        await method.before?.([trace]);
        await limited(() => method.send([trace]));
      } catch (error) {
        if (error instanceof MlflowRefusedError && !error.routeMissing) await checkRefusal();
        throw error;
      }
    };
    const deliveries = new Deliveries<T>({ ...method, retry: this.#rest.retry, limited, control, checkRefusal });
    try {
      await work(deliveries, prepared());
      const result = await deliveries.result();
      return { ...result, refused: [...result.refused, ...unwritable] };
    } finally {
      await controls.remove();
    }
  }

  /** Builds each batch when it is needed, so that only batches in flight are in memory. */
  *#batches(traces: Iterable<OtlpTrace>): Generator<OtlpTrace[]> {
    let batch: OtlpTrace[] = [];
    let size = 0;
    for (const trace of traces) {
      const full = batch.length >= TRACES_PER_REQUEST || size + trace.size > this.#sizePerRequest;
      if (full && batch.length > 0) {
        yield batch;
        batch = [];
        size = 0;
      }
      batch.push(trace);
      size += trace.size;
    }
    if (batch.length > 0) yield batch;
  }
}

/** Checks a reply with status 200: spans may have been rejected, or the reply may be the page of a gateway. */
function assertAccepted(reply: Buffer): void {
  const rejected = rejectedSpans(reply);
  if (rejected === 0) return;
  const where = `POST ${OTLP_PATH}`;
  if (rejected !== undefined)
    throw new MlflowRefusedError('MLflow rejected spans', { got: `${rejected} spans rejected`, where, status: 200 });
  throw notStored('The reply is not the protobuf reply to an OTLP request', `${reply.length} bytes`, where);
}

const NAME = 'write check of the inference monitor, may be deleted';
/** If every second request fails, 16 in a row fail in 1 of 65,000 cases. The waits are 14 s at most. */
const DELETE_RETRY = { attempts: 16, capMs: 1_000 };

/**
 * Creates control traces: valid traces that are written to check whether the server accepts any trace, and then
 * deleted. Their name and a tag explain their purpose, in case the process ends before it has deleted them.
 */
function controlTraces(rest: MlflowRest, experiment: Experiment) {
  const made: string[] = [];
  /** Returns a new control trace. It counts as written, whatever the outcome of the request. */
  const make = (): TraceRecord => {
    const digits = randomBytes(24).toString('hex');
    const traceId = `tr-${digits.slice(0, 32)}`;
    made.push(traceId);
    const now = Date.now();
    const known = { name: NAME, startTimeMs: now, endTimeMs: now };
    const span = { ...known, spanId: digits.slice(32, 48), spanType: 'UNKNOWN', attributes: {} };
    return {
      ...{ ...known, traceId, state: 'OK', requestPreview: '', responsePreview: '' },
      tags: { write_check: 'true' },
      spans: [{ ...span, status: { code: 'OK' } }],
    };
  };
  /** Deletes all control traces. */
  const remove = (): Promise<void> => {
    const patient = { ...rest.retry, ...DELETE_RETRY, capMs: Math.min(rest.retry.capMs, DELETE_RETRY.capMs) };
    return deleteTraces(rest, experiment.id, made.splice(0), patient);
  };
  return { make, remove };
}
