/** Logs one chunk of capture lines as traces. A line that is not a capture record goes to quarantine with the reason. */

import type { ChunkRequest, ManifestLine } from '../../contract/payloads.ts';
import {
  LOG_TERMS,
  type LogCounts,
  type LogReceipt,
  type NamedError,
  type QuarantineEntry,
  type UnreadRange,
} from '../../contract/receipts.ts';
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
import type { TraceRecord } from '../../trace/types.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import { type CaptureLine, readChunk } from '../chunk/chunk-reader.ts';
import { chunkOfPart, KILLED, leftOut, lineCountMismatch, type Part, partOf } from '../chunk/parts.ts';
import { isInside } from '../chunk/ranges.ts';
import { addCounts, emptyLogCounts, sumLogCounts } from '../counts.ts';
import { attemptFacts, quarantineOfChunk, withReceipt } from '../receipts.ts';
import { tryToLog } from './log-trial.ts';

interface LogDependencies {
  storage: Storage;
  store: Pick<TraceStore, 'getExperiment' | 'getTraces' | 'writeTraces' | 'mendTraces'>;
  environment: LambdaEnvironment;
  requestId: string;
}

/** The most memory that traces may take before they are written; less in a small function. */
const BATCH_WEIGHT = 64 * 1024 * 1024;
/** A chunk of more than one line has no more bytes than this. */
const MAX_KEPT_BYTES = CHUNK_BOUNDS.maxBytes;
/** The least memory that a span takes. A short record may contain thousands of rows, and each is a span. */
const SPAN_BYTES = 1000;
/** Two OTLP requests of 100 traces, both in flight together. More traces would only wait in memory. */
const BATCH_LINES = 200;

/** A line whose bytes are kept until it is known whether it goes to quarantine. */
interface KeptLine {
  /** The ordinal of its range. */
  range: number;
  place: LinePlace;
  bytes: Buffer;
}

/** A long line is kept by its place alone. */
type KeptPlace = Omit<KeptLine, 'bytes'> & { bytes?: Buffer | undefined };

interface Pending extends KeptLine {
  trace: TraceRecord;
  weight: number;
}

/**
 * Reads the chunk, writes the traces that are missing, and writes a receipt whether it succeeds or fails.
 *
 * @throws the error that stopped the chunk, by name, after the receipt is written
 */
export function logChunk(request: ChunkRequest, deps: LogDependencies): Promise<LogReceipt> {
  return withReceipt(deps.storage, deps.environment.WORK_BUCKET, new LogChunk(request, deps));
}

class LogChunk {
  readonly #request: ChunkRequest;
  readonly #part: Part;
  readonly #deps: LogDependencies;
  readonly #startedAt = new Date().toISOString();
  /** By range. */
  readonly #counts: LogCounts[];
  readonly #unread: UnreadRange[] = [];
  readonly #quarantine: QuarantineEntry[] = [];
  #pending: Pending[] = [];
  #pendingWeight = 0;
  #experiment: Experiment | undefined;
  /** Lines identical to an earlier one, by trace id. */
  readonly #duplicates = new Map<string, KeptLine[]>();
  /** The reasons of traces that could not be built or that MLflow refused. They apply to identical lines too. */
  readonly #refused = new Map<string, NamedError>();

  constructor(request: ChunkRequest, deps: LogDependencies) {
    this.#request = request;
    this.#part = partOf(request);
    this.#deps = deps;
    this.#counts = request.chunk.ranges.map(emptyLogCounts);
  }

  async run(): Promise<void> {
    const { storage, environment } = this.#deps;
    const { options } = this.#request;
    const chunk = await chunkOfPart(storage, environment.WORK_BUCKET, this.#request.chunk, this.#part);
    const how = { leaveOut: leftOut(this.#request), tryOut: tryToLog, makeRoom: () => this.#flush() };
    for await (const line of readChunk(storage, chunk, environment, options.window, how)) {
      const { range } = line;
      if (line.kind === 'unread') {
        this.#unread.push({ range, lines: line.lines, error: toNamedError(line.fault) });
        continue;
      }
      this.#count(range, 'lines');
      if (line.kind === 'outsideWindow') {
        this.#count(range, 'outsideWindow');
      } else if (line.kind === 'quarantine') {
        const { reason, place, bytes, traceId } = line;
        if (reason === KILLED) await this.#condemn({ range, place, bytes }, traceId);
        else this.#addToQuarantine({ range, place, bytes }, reason);
      } else if (line.duplicate) {
        const { place, bytes } = line.raw;
        this.#duplicates.set(line.traceId, [...(this.#duplicates.get(line.traceId) ?? []), { range, place, bytes }]);
      } else {
        const trace = this.#traceOf(line, range);
        if (trace === undefined) continue;
        const weight = Math.max(line.weight, trace.spans.length * SPAN_BYTES);
        await this.#add({ trace, range, ...line.raw, weight });
      }
    }
    await this.#flush();
    this.#countDuplicates();
    await this.#writeQuarantine(chunk);
    for (const [range, planned] of chunk.ranges.entries()) {
      const lines = this.#counts[range]?.lines ?? 0;
      if (lines !== planned.lines && !this.#unread.some((one) => one.range === range)) {
        throw lineCountMismatch(planned, lines);
      }
    }
  }

  #count(range: number, ...terms: (keyof LogCounts)[]): void {
    const counts = this.#counts[range];
    if (counts !== undefined) for (const term of terms) counts[term] += 1;
  }

  /** Builds the trace of a line. If that takes too long, the trace shows the line as captured; if it fails, quarantines it. */
  #traceOf({ raw, capture, traceId }: CaptureLine, range: number): TraceRecord | undefined {
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
      const reason = {
        name: 'TraceNotBuilt',
        message: `The trace of the line could not be built: ${name}: ${message}`,
      };
      this.#addToQuarantine({ range, ...raw }, reason);
      this.#refused.set(traceId, reason);
      return undefined;
    }
  }

  /** Settles a line that killed the function: it is traced if its trace was written before the kill, else quarantined. */
  async #condemn(line: KeptPlace, traceId = ''): Promise<void> {
    const existing = await this.#deps.store.getTraces(this.#request.chunk.experimentId, [traceId]);
    if (existing.has(traceId)) {
      this.#count(line.range, 'traced', 'alreadyThere');
    } else {
      this.#addToQuarantine(line, KILLED);
    }
  }

  async #add(pending: Pending): Promise<void> {
    const most = Math.min(BATCH_WEIGHT, weightAtOnce());
    if (this.#pendingWeight + pending.weight > most) await this.#flush();
    this.#pending.push(pending);
    this.#pendingWeight += pending.weight;
    if (this.#pending.length >= BATCH_LINES || this.#pendingWeight >= most) await this.#flush();
  }

  /** Checks which of the pending traces exist, and writes the others. */
  async #flush(): Promise<void> {
    const batch = this.#pending;
    this.#pending = [];
    this.#pendingWeight = 0;
    if (batch.length === 0) return;
    const { store } = this.#deps;
    const { experimentId } = this.#request.chunk;
    const traces = batch.map(({ trace }) => trace);
    const ids = traces.map(({ traceId }) => traceId);
    const [existing, experiment] = await Promise.all([
      store.getTraces(experimentId, ids),
      this.#experiment ?? store.getExperiment(experimentId),
    ]);
    this.#experiment = experiment;
    const present = traces.filter(({ traceId }) => existing.has(traceId));
    const unmended = this.#part.isRepeated ? await store.mendTraces(experiment, present) : [];
    const absent = traces.filter(({ traceId }) => !existing.has(traceId));
    const result = await store.writeTraces(experiment, absent);
    for (const { traceId, reason } of [...unmended, ...result.refused]) this.#refused.set(traceId, reason);
    const written = new Set(result.written);
    for (const line of batch) {
      const reason = this.#refused.get(line.trace.traceId);
      if (reason !== undefined) this.#addToQuarantine(line, reason);
      else this.#count(line.range, 'traced', written.has(line.trace.traceId) ? 'written' : 'alreadyThere');
    }
  }

  #countDuplicates(): void {
    for (const [traceId, duplicates] of this.#duplicates) {
      const reason = this.#refused.get(traceId);
      for (const line of duplicates) {
        if (reason !== undefined) this.#addToQuarantine(line, reason);
        else this.#count(line.range, 'traced', 'duplicateLine');
      }
    }
  }

  #addToQuarantine({ range, place, bytes }: KeptPlace, reason: NamedError): void {
    const { objectTimeMs, ...where } = place;
    this.#count(range, 'quarantined');
    this.#quarantine.push({
      ...where,
      reason,
      // A long line is kept by its place alone: to write its bytes, they would be in memory three times.
      ...(bytes === undefined || bytes.length > MAX_KEPT_BYTES ? {} : { base64: bytes.toString('base64') }),
      quarantinedAt: new Date().toISOString(),
      experimentId: this.#request.chunk.experimentId,
      objectTimeMs,
      options: this.#request.options,
    });
  }

  /**
   * Writes the quarantine object of the chunk. A later attempt replaces the lines of its part, also by nothing: a line that
   * MLflow refused once and has accepted since must not stay in quarantine.
   */
  async #writeQuarantine(part: ManifestLine): Promise<void> {
    const { storage, environment } = this.#deps;
    const { run, chunk } = this.#request;
    const { isRepeated } = this.#part;
    if (this.#quarantine.length === 0 && !isRepeated) return;
    const before = isRepeated ? await quarantineOfChunk(storage, environment.WORK_BUCKET, run, chunk.chunk) : [];
    const others = before.filter((entry) => !part.ranges.some((range) => isInside(entry, range)));
    const body = [...others, ...this.#quarantine]
      .toSorted((a, b) => (a.key === b.key ? a.start - b.start : a.key < b.key ? -1 : 1))
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
    for (const { reason } of this.#quarantine) addCounts(quarantineReasons, { [reason.name]: 1 });
    return {
      step: 'log',
      ...attemptFacts(this.#request, this.#deps.requestId, this.#startedAt, failure),
      ...(this.#unread.length === 0 ? {} : { unread: this.#unread }),
      counts: sumLogCounts(this.#counts.map((counts) => ({ counts }))),
      ...(this.#counts.length === 1 ? {} : { byRange: this.#counts.map((one) => LOG_TERMS.map((term) => one[term])) }),
      quarantineReasons,
    };
  }
}
