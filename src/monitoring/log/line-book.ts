/** What becomes of the lines of a chunk: each is traced, quarantined or outside the time window. */

import { decodeLine } from '../../captures/decode.ts';
import { buildTrace, traceNotBuilt } from '../../captures/trace/build.ts';
import type { TraceRecord } from '../../captures/trace/types.ts';
import type { Capture, LinePlace, RawLine } from '../../captures/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import type { CaptureRange, ChunkRequest } from '../../core/contract/payloads.ts';
import {
  LOG_TERMS,
  type LogCounts,
  type LogReceipt,
  type NamedError,
  type QuarantineEntry,
  type UnreadRange,
} from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { isOutOfTime, timeOf, withinTime } from '../../core/process/within-time.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { addCounts } from '../../core/values/counts.ts';
import type { Experiment, NewAssessment, StoredTrace, TraceStore, WriteTracesResult } from '../../mlflow/types.ts';
import { type CaptureFacts, NO_VERDICTS, type QualityTally } from '../../quality/tally.ts';
import { isRepeated, isRetry, lineCountMismatch } from '../chunk/attempt.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import { emptyLogCounts, sumLogCounts } from '../counts.ts';
import { attemptFacts } from '../receipts.ts';
import type { WriteTurns, WrittenTraces } from './write-turns.ts';

export interface LogDependencies {
  storage: Storage;
  store: Pick<TraceStore, 'getExperiment' | 'getTraces' | 'writeTraces' | 'mendTraces' | 'spansForm'>;
  environment: LambdaEnvironment;
  requestId: string;
  /** Returns the milliseconds until the Lambda is ended. Absent: it has plenty. */
  remainingMs?(): number;
  /** Absent: another run may write the same lines at the same time. */
  turns?: WriteTurns | undefined;
  /** What earlier attempts and other runs have written. Absent: an absent trace counts as one that was never written. */
  written?: (WrittenTraces & { open(): Promise<unknown> }) | undefined;
}

/** A chunk of more than one line has no more bytes than this. */
const MAX_KEPT_BYTES = CHUNK_BOUNDS.maxBytes;

/** A line whose bytes are kept until it is known whether it goes to quarantine. */
export interface KeptLine {
  /** The ordinal of its range in the chunk. */
  range: number;
  raw: RawLine;
  /** The run of the replay that sent the request: it is traced, but neither judged nor counted. */
  replay?: string | undefined;
}

/** A capture that is to be traced. */
export interface TraceableLine extends KeptLine {
  capture: Capture;
  traceId: string;
  /** The memory that it takes when decoded, in bytes. */
  weight: number;
}

export interface BuiltLine extends KeptLine {
  trace: TraceRecord;
  facts: CaptureFacts;
}

/** A line by its place, with its bytes unless it is long. */
interface KeptPlace {
  range: number;
  place: LinePlace;
  bytes?: Buffer | undefined;
}

export class LineBook {
  readonly #request: ChunkRequest;
  readonly #deps: LogDependencies;
  readonly #quality: QualityTally | undefined;
  readonly #startedAt = new Date().toISOString();
  /** By range. */
  readonly #counts: LogCounts[];
  readonly #unread: UnreadRange[] = [];
  readonly #quarantine: QuarantineEntry[] = [];
  #experiment: Promise<Experiment> | undefined;
  /** Lines identical to an earlier one, by trace id. */
  readonly #duplicates = new Map<string, KeptLine[]>();
  /** The reasons of traces that could not be built or that MLflow refused. They apply to identical lines too. */
  readonly #refused = new Map<string, NamedError>();

  /** @param quality counts the captures, where no other step does */
  constructor(request: ChunkRequest, deps: LogDependencies, quality?: QualityTally) {
    this.#quality = quality;
    this.#request = request;
    this.#deps = deps;
    this.#counts = request.chunk.ranges.map(emptyLogCounts);
  }

  /** Notes a range whose file can no longer be read. Its lines are lost, those of the others are not. */
  unread(range: UnreadRange): void {
    this.#unread.push(range);
  }

  outsideWindow(range: number): void {
    this.#count(range, 'lines', 'outsideWindow');
  }

  quarantine(line: KeptPlace, reason: NamedError): void {
    this.#count(line.range, 'lines');
    this.#refuse(line, reason);
  }

  duplicate(traceId: string, { range, raw: { place, bytes } }: KeptLine): void {
    this.#count(range, 'lines');
    this.#duplicates.set(traceId, [...(this.#duplicates.get(traceId) ?? []), { range, raw: { place, bytes } }]);
  }

  /** Counts a line whose trace needs no writing: it exists, or a person has deleted it. */
  alreadyThere(range: number): void {
    this.#count(range, 'lines', 'traced', 'alreadyThere');
  }

  /** Counts a capture if this run has written its trace. */
  countIfOwn(traceId: string, facts: CaptureFacts, stored: StoredTrace | undefined): void {
    if (stored?.info?.run !== this.#request.run) return;
    this.#quality?.add({ traceId, facts, isWritten: true, ...NO_VERDICTS });
  }

  /** The traces that could not be written, by id, and why. */
  get refused(): ReadonlyMap<string, NamedError> {
    return this.#refused;
  }

  /** Builds the trace of a line, or quarantines it. */
  trace(line: TraceableLine): TraceRecord | undefined {
    try {
      return this.#build(line);
    } catch (error) {
      const reason = traceNotBuilt(error);
      this.quarantine({ range: line.range, ...line.raw }, reason);
      this.#refused.set(line.traceId, reason);
      return undefined;
    }
  }

  /** Builds the trace of a line. If that takes too long, the trace shows the line as captured. */
  #build({ raw, capture, replay }: TraceableLine): TraceRecord {
    const { environment } = this.#deps;
    const options = {
      experimentId: this.#request.chunk.experimentId,
      endpointName: environment.SAGEMAKER_ENDPOINT_NAME,
      run: this.#request.run,
      replay,
    };
    const build = (of: Capture): TraceRecord =>
      withinTime(timeOf(of, raw.bytes.length), () => buildTrace(of, raw, options));
    try {
      return build(capture);
    } catch (error) {
      if (!isOutOfTime(error)) throw error;
      const kept = decodeLine(raw, { keepRaw: error.message, maxWeight: Number.MAX_VALUE });
      if (kept.kind !== 'capture') throw error;
      return build(kept.capture);
    }
  }

  /** Counts traces that were written, or found when they were to be written, and quarantines those that MLflow refused. */
  async write(
    lines: readonly BuiltLine[],
    assessmentsOf?: ReadonlyMap<string, readonly NewAssessment[]>,
  ): Promise<{ there: string[]; bare: string[] }> {
    if (lines.length === 0) return { there: [], bare: [] };
    const { turns } = this.#deps;
    const write = () => this.#write(lines, assessmentsOf);
    if (turns === undefined) return write();
    const ranges = new Set(lines.map(({ range }) => this.#request.chunk.ranges[range] as CaptureRange));
    return turns.during([...ranges], this.#deps.written, write);
  }

  async #write(
    lines: readonly BuiltLine[],
    assessmentsOf?: ReadonlyMap<string, readonly NewAssessment[]>,
  ): Promise<{ there: string[]; bare: string[] }> {
    const { store } = this.#deps;
    const { experimentId } = this.#request.chunk;
    const traces = lines.map(({ trace }) => trace);
    const ids = traces.map(({ traceId }) => traceId);
    const experiment = await this.#resolved();
    // With assessments, the client itself reads what exists, just before it writes.
    const existing: ReadonlyMap<string, StoredTrace> =
      assessmentsOf === undefined ? await store.getTraces(experimentId, ids) : new Map();
    // Of those that were written before, a person has deleted what is absent.
    const before = ids.filter((traceId) => existing.has(traceId) || this.#deps.written?.isWritten(traceId));
    const there = new Set(before);
    const absent = traces.filter(({ traceId }) => !there.has(traceId));
    const result = await store.writeTraces(experiment, absent, assessmentsOf);
    await this.#deps.written?.saveWritten(result);
    for (const traceId of result.alreadyThere) there.add(traceId);
    const isOpen = ({ traceId }: TraceRecord) =>
      existing.get(traceId)?.lacksSpans || (this.mends && there.has(traceId));
    const unmended = await this.#mend(traces.filter(isOpen));
    for (const { traceId, reason } of [...result.refused, ...unmended]) this.#refused.set(traceId, reason);
    const written = new Set(result.written);
    for (const { trace, range, raw, facts } of lines) {
      this.#count(range, 'lines');
      const reason = this.#refused.get(trace.traceId);
      if (written.has(trace.traceId))
        this.#quality?.add({ traceId: trace.traceId, facts, isWritten: true, ...NO_VERDICTS });
      else this.countIfOwn(trace.traceId, facts, existing.get(trace.traceId));
      if (reason !== undefined) this.#refuse({ range, ...raw }, reason);
      else this.#count(range, 'traced', written.has(trace.traceId) ? 'written' : 'alreadyThere');
    }
    return { there: [...there], bare: result.bare };
  }

  #count(range: number, ...terms: (keyof LogCounts)[]): void {
    const counts = this.#counts[range];
    if (counts !== undefined) for (const term of terms) counts[term] += 1;
  }

  /** Whether an earlier attempt may have left the spans of existing traces incomplete. */
  get mends(): boolean {
    return isRepeated(this.#request) || isRetry(this.#request.chunk);
  }

  /** Writes the spans of an existing trace where they are incomplete. A trace whose spans are refused is gone, and quarantined. */
  async mend(line: TraceableLine): Promise<void> {
    for (const { traceId, reason } of await this.#mend([this.#build(line)])) {
      this.#refused.set(traceId, reason);
      const counts = this.#counts[line.range] ?? emptyLogCounts();
      counts.traced -= 1;
      counts.alreadyThere -= 1;
      this.#refuse({ range: line.range, ...line.raw }, reason);
    }
  }

  async #mend(traces: readonly TraceRecord[]): Promise<WriteTracesResult['refused']> {
    return traces.length === 0 ? [] : this.#deps.store.mendTraces(await this.#resolved(), traces);
  }

  #resolved(): Promise<Experiment> {
    this.#experiment ??= this.#deps.store.getExperiment(this.#request.chunk.experimentId);
    return this.#experiment;
  }

  /** Settles the lines that are identical to others, and writes the quarantine object. */
  async close(): Promise<void> {
    for (const [traceId, duplicates] of this.#duplicates) {
      const reason = this.#refused.get(traceId);
      for (const { range, raw } of duplicates) {
        if (reason !== undefined) this.#refuse({ range, ...raw }, reason);
        else this.#count(range, 'traced', 'duplicateLine');
      }
    }
    // A line that MLflow refused once and has accepted since must not stay in quarantine.
    if (this.#quarantine.length > 0 || isRepeated(this.#request)) await this.#writeQuarantine();
    for (const [range, planned] of this.#request.chunk.ranges.entries()) {
      const lines = this.#counts[range]?.lines ?? 0;
      if (lines !== planned.lines && !this.#unread.some((one) => one.range === range)) {
        throw lineCountMismatch(planned, lines);
      }
    }
  }

  async #writeQuarantine(): Promise<void> {
    const { run, chunk } = this.#request;
    const lines = this.#quarantine.toSorted((a, b) => (a.key === b.key ? a.start - b.start : a.key < b.key ? -1 : 1));
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    const { WORK_BUCKET: bucket } = this.#deps.environment;
    await this.#deps.storage.putText(bucket, workKeys.quarantine(run, chunk.chunk), text, 'application/jsonlines');
  }

  #refuse({ range, place, bytes }: KeptPlace, reason: NamedError): void {
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
      ...this.#quality?.counts(),
      ...(this.#refused.size === 0 ? {} : { refused: this.#refused.size }),
    };
  }
}
