/** Writes traces, by OTLP where the server can take it, else as a file of spans and a REST call each. */
import type { S3Client } from '@aws-sdk/client-s3';
import { forEachConcurrently } from '../shared/concurrency.ts';
import { PermanentError, toNamedError } from '../shared/errors.ts';
import type { TraceRecord } from '../trace/types.ts';
import { spansStore } from './artifact-store.ts';
import { type CapabilityProbe, isAccessDenied } from './capabilities.ts';
import { ControlTraces } from './control-traces.ts';
import { Deliveries, type Delivery } from './deliver.ts';
import { MlflowRefusedError } from './errors.ts';
import { getExperiment } from './experiments.ts';
import { type OtlpTrace, otlpRequest, otlpTrace, rejectedSpans } from './otlp.ts';
import { readTraces } from './read-traces.ts';
import { anyReply } from './replies.ts';
import type { MlflowRest } from './rest.ts';
import { hasStorableTime, timeRefusal } from './storable-time.ts';
import { spansFile, traceInfo } from './trace-json.ts';
import type { Experiment, WriteTracesResult } from './types.ts';

/** MLflow's time per trace is the same from some 50 traces a request on; fewer lose less when one is refused. */
const TRACES_A_REQUEST = 100;
/** About 4 MB: two requests under way, their texts and their bytes, are 4 × 4 = 16 MB. A larger trace goes alone. */
const SIZE_A_REQUEST = 4 * 1024 * 1024;
const OTLP_PATH = '/v1/traces';

/** One request is sent while the next is put together; more only queue up in a server with one worker. */
const OTLP_AT_ONCE = 2;
/** A trace is a wait for the artifact store and one for the server: four keep both busy. */
const REST_AT_ONCE = 4;

interface TraceWriterOptions {
  rest: MlflowRest;
  probe: CapabilityProbe;
  s3?: S3Client;
}

export class TraceWriter {
  readonly #options: TraceWriterOptions;
  /** Lowered for good when a gateway refuses a request as too large. */
  #sizeARequest = SIZE_A_REQUEST;

  constructor(options: TraceWriterOptions) {
    this.#options = options;
  }

  async write(experiment: Experiment, given: readonly TraceRecord[]): Promise<WriteTracesResult> {
    const all = [...new Map(given.map((trace) => [trace.traceId, trace])).values()];
    const traces = all.filter(hasStorableTime);
    const refused = all.filter((trace) => !hasStorableTime(trace)).map(timeRefusal);
    if (traces.length === 0) return { written: [], alreadyThere: [], refused };
    const results: WriteTracesResult[] = [{ written: [], alreadyThere: [], refused }];
    if ((await this.#options.probe.get()).otlp) {
      try {
        results.push(await this.#byOtlp(experiment, traces));
      } catch (error) {
        if (!this.#lacksOtlp(error)) throw error;
        await this.#options.probe.lacks('otlp');
        // The first requests may have been taken, by one of several servers behind the same name.
        const existing = await this.#existing(experiment, traces);
        const absent = traces.filter(({ traceId }) => !existing.has(traceId));
        results.push({ written: [...existing], alreadyThere: [], refused: [] });
        results.push(await this.#byRest(experiment, absent));
      }
    } else {
      results.push(await this.#byRest(experiment, traces));
    }
    return {
      written: results.flatMap((result) => result.written),
      alreadyThere: results.flatMap((result) => result.alreadyThere),
      refused: results.flatMap((result) => result.refused),
    };
  }

  /** See `TraceStore`. By OTLP a trace and its spans are written in one transaction: there is nothing to mend. */
  async mend(experiment: Experiment, traces: readonly TraceRecord[]): Promise<void> {
    const { rest, s3, probe } = this.#options;
    if (traces.length === 0 || (await probe.get()).otlp) return;
    const spans = spansStore(rest, experiment, s3);
    await forEachConcurrently(REST_AT_ONCE, traces, (trace) => spans.mend(trace.traceId, spansFile(trace)));
  }

  #lacksOtlp(error: unknown): boolean {
    // A gateway of managed MLflow may deny routes that it does not know. If access as such is denied, the other way is too.
    if (this.#options.rest.target.kind !== 'url' && isAccessDenied(error)) return true;
    return error instanceof MlflowRefusedError && error.routeMissing;
  }

  async #existing(experiment: Experiment, traces: readonly { traceId: string }[]): Promise<Set<string>> {
    const ids = traces.map(({ traceId }) => traceId);
    const { rest, probe } = this.#options;
    return new Set((await readTraces(rest, probe, experiment.id, ids)).keys());
  }

  /** Hands the traces, each prepared when its turn comes, to a delivery by `work`, and gives what became of them. */
  async #deliver<T extends { traceId: string }>(
    experiment: Experiment,
    traces: readonly TraceRecord[],
    way: Omit<Delivery<T>, 'retry' | 'control' | 'checkRefusal'> & { prepare(trace: TraceRecord): T },
    work: (deliveries: Deliveries<T>, prepared: Generator<T>) => Promise<void>,
  ): Promise<WriteTracesResult> {
    const unwritable: WriteTracesResult['refused'] = [];
    const prepared = function* (): Generator<T> {
      for (const trace of traces) {
        const item = preparedOr(trace, way.prepare);
        if ('reason' in item) unwritable.push({ traceId: trace.traceId, reason: item.reason });
        else yield item.prepared;
      }
    };
    const { rest } = this.#options;
    const controls = new ControlTraces(rest, experiment);
    const checkRefusal = async () => {
      await getExperiment(rest, experiment.id);
    };
    const control = async () => {
      try {
        await way.send([way.prepare(controls.make())]);
      } catch (error) {
        if (error instanceof MlflowRefusedError && !error.routeMissing) await checkRefusal();
        throw error;
      }
    };
    const deliveries = new Deliveries<T>({ ...way, retry: rest.retry, control, checkRefusal });
    try {
      await work(deliveries, prepared());
      const result = await deliveries.result();
      return { ...result, refused: [...result.refused, ...unwritable] };
    } finally {
      await controls.remove();
    }
  }

  async #byOtlp(experiment: Experiment, traces: readonly TraceRecord[]): Promise<WriteTracesResult> {
    return this.#deliver<OtlpTrace>(
      experiment,
      traces,
      {
        prepare: otlpTrace,
        send: async (batch) => {
          const reply = await this.#options.rest.bytes({
            method: 'POST',
            path: OTLP_PATH,
            bytes: otlpRequest(batch),
            contentType: 'application/x-protobuf',
            headers: { 'x-mlflow-experiment-id': experiment.id },
          });
          assertTaken(reply);
        },
        existing: (batch) => this.#existing(experiment, batch),
        tooLarge: (batch) => {
          const size = batch.reduce((sum, trace) => sum + trace.size, 0);
          this.#sizeARequest = Math.min(this.#sizeARequest, size / 2);
        },
      },
      (deliveries, prepared) =>
        forEachConcurrently(OTLP_AT_ONCE, this.#batches(prepared), (batch) => deliveries.deliver(batch)),
    );
  }

  /** Batches are made when they are asked for, so that only those under way are in memory. */
  *#batches(traces: Iterable<OtlpTrace>): Generator<OtlpTrace[]> {
    let batch: OtlpTrace[] = [];
    let size = 0;
    for (const trace of traces) {
      const full = batch.length >= TRACES_A_REQUEST || size + trace.size > this.#sizeARequest;
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

  /** The file first: a trace that is seen then never lacks its spans. */
  async #byRest(experiment: Experiment, traces: readonly TraceRecord[]): Promise<WriteTracesResult> {
    if (traces.length === 0) return { written: [], alreadyThere: [], refused: [] };
    const { rest, s3 } = this.#options;
    const spans = spansStore(rest, experiment, s3);
    return this.#deliver<{ traceId: string; file: Buffer; info: Record<string, unknown> }>(
      experiment,
      traces,
      {
        prepare: (trace) => ({
          traceId: trace.traceId,
          file: spansFile(trace),
          info: traceInfo(experiment.id, trace),
        }),
        send: async (batch) => {
          for (const { traceId, file, info } of batch) {
            await spans.put(traceId, file);
            const json = { trace: { trace_info: info } };
            await rest.once({ method: 'POST', path: '/api/3.0/mlflow/traces', json }, anyReply);
          }
        },
        existing: async (batch) => {
          const existing = await this.#existing(experiment, batch);
          // The trace may be a twin's, and its file what a put of ours that broke off has left.
          for (const { traceId, file } of batch) {
            if (existing.has(traceId)) await spans.mend(traceId, file);
          }
          return existing;
        },
      },
      (deliveries, prepared) => forEachConcurrently(REST_AT_ONCE, prepared, (trace) => deliveries.deliver([trace])),
    );
  }
}

/** The trace in the form that is sent, or why it has none: one that cannot be written out is refused, not the others. */
function preparedOr<T>(
  trace: TraceRecord,
  prepare: (trace: TraceRecord) => T,
): { prepared: T } | { reason: { name: string; message: string } } {
  try {
    return { prepared: prepare(trace) };
  } catch (error) {
    const { name, message } = toNamedError(error);
    return { reason: { name: 'TraceNotBuilt', message: `The trace could not be written out: ${name}: ${message}` } };
  }
}

/** A 200 is not yet a yes: spans may have been rejected, or the answer be a page of something before the server. */
function assertTaken(reply: Buffer): void {
  const rejected = rejectedSpans(reply);
  if (rejected === 0) return;
  const where = `POST ${OTLP_PATH}`;
  if (rejected !== undefined) {
    throw new MlflowRefusedError('MLflow rejected spans', {
      got: `${rejected} spans rejected`,
      said: '',
      where,
      status: 200,
    });
  }
  throw new PermanentError('MlflowBadReply', 'This is not a reply of MLflow', {
    got: `${reply.length} bytes`,
    expected: 'the protobuf reply to an OTLP request, not a page (a login?)',
    where,
  });
}
