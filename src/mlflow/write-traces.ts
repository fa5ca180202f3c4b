/** Writes traces: by OTLP if the server supports it, otherwise each as a file of spans and a REST call. */
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

/** From about 50 traces per request on, MLflow's time per trace is constant. Smaller batches lose less to a refusal. */
const TRACES_PER_REQUEST = 100;
/** About 4 MB. Two requests in flight, with texts and bytes, take 4 × 4 = 16 MB. A larger trace is sent alone. */
const SIZE_PER_REQUEST = 4 * 1024 * 1024;
const OTLP_PATH = '/v1/traces';

/** One request is sent while the next is built. More would only wait at a server with one worker. */
const CONCURRENT_OTLP = 2;
/** A trace waits for the artifact store and then for the server. Four keep both busy. */
const CONCURRENT_REST = 4;

interface TraceWriterOptions {
  rest: MlflowRest;
  probe: CapabilityProbe;
  s3?: S3Client;
}

export class TraceWriter {
  readonly #options: TraceWriterOptions;
  /** Permanently lowered when a gateway refuses a request as too large. */
  #sizePerRequest = SIZE_PER_REQUEST;

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
        // One of several servers behind the same name may have accepted the first requests.
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

  /** See `TraceStore`. OTLP writes a trace and its spans in one transaction, which never needs a repair. */
  async mend(experiment: Experiment, traces: readonly TraceRecord[]): Promise<void> {
    const { rest, s3, probe } = this.#options;
    if (traces.length === 0 || (await probe.get()).otlp) return;
    const spans = spansStore(rest, experiment, s3);
    await forEachConcurrently(CONCURRENT_REST, traces, (trace) => spans.mend(trace.traceId, spansFile(trace)));
  }

  #lacksOtlp(error: unknown): boolean {
    // A gateway of managed MLflow may deny unknown routes. If access as such is denied, REST is denied as well.
    if (this.#options.rest.target.kind !== 'url' && isAccessDenied(error)) return true;
    return error instanceof MlflowRefusedError && error.routeMissing;
  }

  async #existing(experiment: Experiment, traces: readonly { traceId: string }[]): Promise<Set<string>> {
    const ids = traces.map(({ traceId }) => traceId);
    const { rest, probe } = this.#options;
    return new Set((await readTraces(rest, probe, experiment.id, ids)).keys());
  }

  /** Delivers the traces by `work`, preparing each one when its turn comes, and returns their outcome. */
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
          assertAccepted(reply);
        },
        existing: (batch) => this.#existing(experiment, batch),
        tooLarge: (batch) => {
          const size = batch.reduce((sum, trace) => sum + trace.size, 0);
          this.#sizePerRequest = Math.min(this.#sizePerRequest, size / 2);
        },
      },
      (deliveries, prepared) =>
        forEachConcurrently(CONCURRENT_OTLP, this.#batches(prepared), (batch) => deliveries.deliver(batch)),
    );
  }

  /** Builds each batch when it is needed, so that only those in flight are in memory. */
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

  /** Puts the file before the trace, so that a visible trace always has its spans. */
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
          // Another run may have written the trace, over a file that an interrupted put of this run left behind.
          for (const { traceId, file } of batch) {
            if (existing.has(traceId)) await spans.mend(traceId, file);
          }
          return existing;
        },
      },
      (deliveries, prepared) => forEachConcurrently(CONCURRENT_REST, prepared, (trace) => deliveries.deliver([trace])),
    );
  }
}

/** Returns a trace in the form that is sent. One that cannot be serialized is refused, without affecting the others. */
function preparedOr<T>(
  trace: TraceRecord,
  prepare: (trace: TraceRecord) => T,
): { prepared: T } | { reason: { name: string; message: string } } {
  try {
    return { prepared: prepare(trace) };
  } catch (error) {
    const { name, message } = toNamedError(error);
    return { reason: { name: 'TraceNotBuilt', message: `The trace could not be serialized: ${name}: ${message}` } };
  }
}

/** Checks a reply with status 200: spans may have been rejected, or the reply may be the page of a gateway. */
function assertAccepted(reply: Buffer): void {
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
  throw new PermanentError('MlflowBadReply', 'The reply is not from MLflow', {
    got: `${reply.length} bytes`,
    expected: 'the protobuf reply to an OTLP request, not a page (a login?)',
    where,
  });
}
