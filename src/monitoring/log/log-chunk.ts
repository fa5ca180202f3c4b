/** Logs one chunk of capture lines as traces; what is no capture record goes to quarantine with its reason. */

import type { ChunkRequest, ManifestLine } from '../../contract/payloads.ts';
import type { LogReceipt, NamedError, QuarantineEntry } from '../../contract/receipts.ts';
import { workKeys } from '../../contract/work-keys.ts';
import { decodeLine } from '../../formats/decode.ts';
import type { Capture, LinePlace } from '../../formats/types.ts';
import type { Experiment, TraceStore } from '../../mlflow/types.ts';
import type { LambdaEnvironment } from '../../settings/environment.ts';
import { toNamedError } from '../../shared/errors.ts';
import { weightAtOnce } from '../../shared/memory.ts';
import type { Storage } from '../../shared/storage.ts';
import { captureTimeMs, isOutOfTime, withinTime } from '../../shared/within-time.ts';
import { buildTrace } from '../../trace/build.ts';
import { traceIdOf } from '../../trace/ids.ts';
import type { TraceRecord } from '../../trace/types.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import { type CaptureLine, readChunk } from '../chunk/chunk-reader.ts';
import { chunkOfPart, KILLED, leftOut, lineCountMismatch, type Part, partOf } from '../chunk/parts.ts';
import { attemptFacts, emptyLogCounts, readQuarantine, writeReceipt } from '../receipts.ts';
import { tryToLog } from './log-trial.ts';

interface LogDependencies {
  storage: Storage;
  store: Pick<TraceStore, 'getExperiment' | 'getTraces' | 'writeTraces' | 'mendTraces'>;
  environment: LambdaEnvironment;
  requestId: string;
}

/** Most that traces become in memory before they are written; less where the function is small. */
const BATCH_WEIGHT = 64 * 1024 * 1024;
/** A chunk of more than one line has no more. */
const MAX_KEPT_BYTES = CHUNK_BOUNDS.maxBytes;
/** Least that a span takes: a short record may hold thousands of rows, each of them a span. */
const SPAN_BYTES = 1000;
/** Two OTLP requests of 100 traces, which are under way at once; more would only wait in memory. */
const BATCH_LINES = 200;

interface Pending {
  trace: TraceRecord;
  place: LinePlace;
  bytes: Buffer;
  weight: number;
}

/**
 * Reads the chunk, writes the traces that are absent, and leaves a receipt whether it succeeds or not.
 *
 * @throws whatever stopped the chunk, by name, after the receipt is written.
 */
export async function logChunk(request: ChunkRequest, deps: LogDependencies): Promise<LogReceipt> {
  const chunk = new LogChunk(request, deps);
  let failure: unknown;
  try {
    await chunk.run();
  } catch (error) {
    failure = error;
  }
  const receipt = chunk.receipt(failure);
  await writeReceipt(deps.storage, deps.environment.WORK_BUCKET, receipt);
  if (failure !== undefined) throw failure;
  return receipt;
}

class LogChunk {
  readonly #request: ChunkRequest;
  readonly #part: Part;
  readonly #deps: LogDependencies;
  readonly #startedAt = new Date().toISOString();
  readonly #counts = emptyLogCounts();
  readonly #quarantine: QuarantineEntry[] = [];
  #pending: Pending[] = [];
  #pendingWeight = 0;
  #experiment: Experiment | undefined;
  /** Further lines identical to an earlier one, by trace id. */
  readonly #duplicates = new Map<string, { place: LinePlace; bytes: Buffer }[]>();

  /** Traces that MLflow refused for what they are; their twins share their fate. */
  readonly #refused = new Map<string, NamedError>();

  constructor(request: ChunkRequest, deps: LogDependencies) {
    this.#request = request;
    this.#part = partOf(request);
    this.#deps = deps;
  }

  async run(): Promise<void> {
    const { storage, environment } = this.#deps;
    const { options } = this.#request;
    const chunk = await chunkOfPart(storage, environment.WORK_BUCKET, this.#request.chunk, this.#part);
    const how = { leaveOut: leftOut(this.#request), tryOut: tryToLog, makeRoom: () => this.#flush() };
    for await (const line of readChunk(storage, chunk, environment, options.window, how)) {
      this.#counts.lines += 1;
      if (line.kind === 'outsideWindow') {
        this.#counts.outsideWindow += 1;
      } else if (line.kind === 'quarantine' && line.reason === KILLED) {
        await this.#condemn(line.place, line.bytes);
      } else if (line.kind === 'quarantine') {
        this.#addToQuarantine(line.place, line.reason, line.bytes);
      } else if (line.duplicate) {
        const place = { place: line.raw.place, bytes: line.raw.bytes };
        this.#duplicates.set(line.traceId, [...(this.#duplicates.get(line.traceId) ?? []), place]);
      } else {
        const trace = this.#traceOf(line);
        if (trace === undefined) continue;
        const weight = Math.max(line.weight, trace.spans.length * SPAN_BYTES);
        await this.#add({ trace, place: line.raw.place, bytes: line.raw.bytes, weight });
      }
    }
    await this.#flush();
    this.#countDuplicates();
    await this.#writeQuarantine(chunk);
    if (this.#counts.lines !== chunk.lines) throw lineCountMismatch(chunk, this.#counts.lines);
  }

  /** A line whose trace cannot be built goes to quarantine; one that takes too long is shown as it was captured. */
  #traceOf({ raw, capture, traceId }: CaptureLine): TraceRecord | undefined {
    const { environment } = this.#deps;
    const options = {
      experimentId: this.#request.chunk.experimentId,
      endpointName: environment.SAGEMAKER_ENDPOINT_NAME,
    };
    const build = (of: Capture): TraceRecord =>
      withinTime(captureTimeMs(raw.bytes.length), () => buildTrace(of, raw, options));
    try {
      try {
        return build(capture);
      } catch (error) {
        if (!isOutOfTime(error)) throw error;
        const kept = decodeLine(raw, { keepRaw: error.message, maxWeight: Number.MAX_VALUE });
        if (kept.kind !== 'capture') throw error;
        return build(kept.capture);
      }
    } catch (error) {
      const { name, message } = toNamedError(error);
      const reason = { name: 'TraceNotBuilt', message: `The line's trace could not be built: ${name}: ${message}` };
      this.#addToQuarantine(raw.place, reason, raw.bytes);
      this.#refused.set(traceId, reason);
      return undefined;
    }
  }

  /** A line that killed the function after its trace was written is traced; any other goes to quarantine as it is. */
  async #condemn(place: LinePlace, bytes: Buffer = Buffer.alloc(0)): Promise<void> {
    const { experimentId } = this.#request.chunk;
    const traceId = traceIdOf(experimentId, bytes);
    const existing = await this.#deps.store.getTraces(experimentId, [traceId]);
    if (existing.has(traceId)) {
      this.#counts.alreadyThere += 1;
      this.#counts.traced += 1;
    } else {
      // A long one by reference: nothing may kill the function here again.
      this.#addToQuarantine(place, KILLED, bytes.length > CHUNK_BOUNDS.maxBytes ? undefined : bytes);
    }
  }

  async #add(pending: Pending): Promise<void> {
    const most = Math.min(BATCH_WEIGHT, weightAtOnce());
    if (this.#pendingWeight + pending.weight > most) await this.#flush();
    this.#pending.push(pending);
    this.#pendingWeight += pending.weight;
    if (this.#pending.length >= BATCH_LINES || this.#pendingWeight >= most) await this.#flush();
  }

  /** Reads which of the traces exist, writes the others. */
  async #flush(): Promise<void> {
    const batch = this.#pending;
    this.#pending = [];
    this.#pendingWeight = 0;
    if (batch.length === 0) return;
    const { store } = this.#deps;
    const { experimentId } = this.#request.chunk;
    const [existing, experiment] = await Promise.all([
      store.getTraces(
        experimentId,
        batch.map(({ trace }) => trace.traceId),
      ),
      this.#experiment ?? store.getExperiment(experimentId),
    ]);
    this.#experiment = experiment;
    const absent = batch.filter(({ trace }) => !existing.has(trace.traceId));
    if (this.#part.isRepeated) {
      const present = batch.filter(({ trace }) => existing.has(trace.traceId));
      await store.mendTraces(
        experiment,
        present.map(({ trace }) => trace),
      );
    }
    const result = await store.writeTraces(
      experiment,
      absent.map(({ trace }) => trace),
    );
    const refused = new Map(result.refused.map(({ traceId, reason }) => [traceId, reason]));
    for (const { trace, place, bytes } of absent) {
      const reason = refused.get(trace.traceId);
      if (reason === undefined) continue;
      this.#addToQuarantine(place, reason, bytes);
      this.#refused.set(trace.traceId, reason);
    }
    this.#counts.written += result.written.length;
    this.#counts.alreadyThere += batch.length - absent.length + result.alreadyThere.length;
    this.#counts.traced += batch.length - refused.size;
  }

  #countDuplicates(): void {
    for (const [traceId, twins] of this.#duplicates) {
      const reason = this.#refused.get(traceId);
      for (const { place, bytes } of twins) {
        if (reason !== undefined) {
          this.#addToQuarantine(place, reason, bytes);
        } else {
          this.#counts.traced += 1;
          this.#counts.duplicateLine += 1;
        }
      }
    }
  }

  #addToQuarantine(place: LinePlace, reason: NamedError, bytes?: Buffer): void {
    const { objectTimeMs, ...where } = place;
    this.#counts.quarantined += 1;
    this.#quarantine.push({
      ...where,
      reason,
      // What is long is kept by its place alone: it would be held three times over to be written.
      ...(bytes === undefined || bytes.length > MAX_KEPT_BYTES ? {} : { base64: bytes.toString('base64') }),
      quarantinedAt: new Date().toISOString(),
      experimentId: this.#request.chunk.experimentId,
      objectTimeMs,
      options: this.#request.options,
    });
  }

  /**
   * One object a chunk, in which a later attempt replaces what is of its part: by nothing when it quarantines nothing, so
   * that what MLflow refused once and has taken since is not told to be in quarantine.
   */
  async #writeQuarantine(part: ManifestLine): Promise<void> {
    const { storage, environment } = this.#deps;
    const { run, chunk } = this.#request;
    const { isRepeated } = this.#part;
    if (this.#quarantine.length === 0 && !isRepeated) return;
    const before = isRepeated ? await readQuarantine(storage, environment.WORK_BUCKET, run, chunk.chunk) : [];
    const others = before.filter(({ start }) => start < part.start || start > part.end);
    const body = [...others, ...this.#quarantine]
      .toSorted((a, b) => a.start - b.start)
      .map((entry) => `${JSON.stringify(entry)}\n`)
      .join('');
    await storage.putText(
      environment.WORK_BUCKET,
      workKeys.quarantine(run, chunk.chunk),
      body,
      'application/jsonlines',
    );
  }

  receipt(failure: unknown): LogReceipt {
    const quarantineReasons: Record<string, number> = {};
    for (const { reason } of this.#quarantine) {
      quarantineReasons[reason.name] = (quarantineReasons[reason.name] ?? 0) + 1;
    }
    return {
      step: 'log',
      ...attemptFacts(this.#request, this.#deps.requestId, this.#startedAt, failure),
      counts: this.#counts,
      quarantineReasons,
    };
  }
}
