/** The outcomes of the lines of a chunk: each is traced, quarantined or outside the time window. */

import { decodeLine } from '../../captures/decode.ts';
import { buildTrace, traceNotBuilt } from '../../captures/trace/build.ts';
import type { TraceRecord } from '../../captures/trace/types.ts';
import type { Capture, LinePlace } from '../../captures/types.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import {
  LOG_TERMS,
  type LogCounts,
  type LogReceipt,
  type NamedError,
  type QuarantineEntry,
  type UnreadRange,
} from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { isOutOfTime, timeOf, withinTime } from '../../core/process/within-time.ts';
import { addCounts } from '../../core/values/counts.ts';
import { isRedacted } from '../../redact/redaction.ts';
import { type ChunkDependencies, isRepeated } from '../chunk/attempt.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import { type CaptureLine, decodeOptions } from '../chunk/decode-lines.ts';
import { emptyLogCounts, sumLogCounts } from '../counts.ts';
import { attemptFacts } from '../receipts.ts';

/** A chunk of more than one line has no more bytes than this. */
const MAX_KEPT_BYTES = CHUNK_BOUNDS.maxBytes;

/** A line whose bytes are kept until it is known whether it goes to quarantine. */
export interface KeptLine extends Pick<CaptureLine, 'raw' | 'replay'> {
  /** The ordinal of its range in the chunk. */
  range: number;
}

/** A capture that is to be traced. */
type TraceableLine = KeptLine & Pick<CaptureLine, 'capture' | 'traceId' | 'weight'>;

/** A line by its place, with its bytes unless it is long. */
interface KeptPlace {
  range: number;
  place: LinePlace;
  bytes?: Buffer | undefined;
}

type LogDependencies = Pick<ChunkDependencies, 'storage' | 'environment' | 'requestId'>;

export class LineLog {
  readonly #request: ChunkRequest;
  readonly #deps: LogDependencies;
  readonly #startedAt = new Date().toISOString();
  /** By range. */
  readonly #counts: LogCounts[];
  readonly #unread: UnreadRange[] = [];
  readonly #quarantine: QuarantineEntry[] = [];
  /** Those of them that no earlier run has put there. */
  readonly quarantinedFirst: QuarantineEntry[] = [];
  /** Lines identical to an earlier one, by trace id. */
  readonly #duplicates = new Map<string, KeptLine[]>();
  /** The traces that could not be built or that MLflow refused, by id, and why. The reasons apply to identical lines too. */
  readonly refused = new Map<string, NamedError>();

  constructor(request: ChunkRequest, deps: LogDependencies) {
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
    this.#quarantineOne(line, reason);
  }

  duplicate(traceId: string, { range, raw: { place, bytes } }: KeptLine): void {
    this.#count(range, 'lines');
    this.#duplicates.set(traceId, [...(this.#duplicates.get(traceId) ?? []), { range, raw: { place, bytes } }]);
  }

  /** Counts a line that is traced: by this chunk of the run, or before, or a person has deleted the trace since. */
  traced(range: number, trace: 'written' | 'alreadyThere' | 'missing'): void {
    this.#count(range, 'lines', 'traced', trace === 'written' ? 'written' : 'alreadyThere');
  }

  /** Quarantines a line whose trace MLflow refused. */
  refuse(traceId: string, line: KeptPlace, reason: NamedError): void {
    this.refused.set(traceId, reason);
    this.quarantine(line, reason);
  }

  /** Builds the trace of a line, or quarantines it. */
  trace(line: TraceableLine): TraceRecord | undefined {
    try {
      return this.#build(line);
    } catch (error) {
      this.refuse(line.traceId, { range: line.range, ...line.raw }, traceNotBuilt(error));
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
      const kept = decodeLine(raw, {
        ...decodeOptions(environment),
        keepRaw: error.message,
        maxWeight: Number.MAX_VALUE,
      });
      if (kept.kind !== 'capture') throw error;
      return build(kept.capture);
    }
  }

  #count(range: number, ...terms: (keyof LogCounts)[]): void {
    const counts = this.#counts[range];
    if (counts !== undefined) for (const term of terms) counts[term] += 1;
  }

  /** Settles the lines that are identical to others, and writes the quarantine object. */
  async close(): Promise<void> {
    for (const [traceId, duplicates] of this.#duplicates) {
      const reason = this.refused.get(traceId);
      for (const { range, raw } of duplicates) {
        if (reason !== undefined) this.#quarantineOne({ range, ...raw }, reason);
        else this.#count(range, 'traced', 'duplicateLine');
      }
    }
    // A line that MLflow refused once and has accepted since must not stay in quarantine.
    if (this.#quarantine.length > 0 || isRepeated(this.#request)) await this.#writeQuarantine();
    for (const [range, planned] of this.#request.chunk.ranges.entries()) {
      const lines = this.#counts[range]?.lines ?? 0;
      if (lines !== planned.lines && !this.#unread.some((one) => one.range === range)) {
        throw new PermanentError('LineCountMismatch', 'The number of lines in the capture file differs from the plan', {
          got: `${lines} lines`,
          expected: `${planned.lines} lines`,
          where: `s3://${planned.bucket}/${planned.key}, bytes ${planned.start}-${planned.end}`,
        });
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

  #quarantineOne({ range, place, bytes }: KeptPlace, reason: NamedError): void {
    const { objectTimeMs, ...where } = place;
    const isMasked = isRedacted(this.#deps.environment);
    this.#count(range, 'quarantined');
    const entry = {
      ...where,
      // Its message may quote the line.
      reason: isMasked ? { name: reason.name, message: 'not kept, since captures are masked' } : reason,
      // A long line is kept by its place alone: to write its bytes, they would be in memory three times.
      ...(bytes === undefined || bytes.length > MAX_KEPT_BYTES || isMasked ? {} : { base64: bytes.toString('base64') }),
      quarantinedAt: new Date().toISOString(),
      experimentId: this.#request.chunk.experimentId,
      objectTimeMs,
      options: this.#request.options,
    };
    this.#quarantine.push(entry);
    if (this.#request.chunk.ranges[range]?.keptIn === undefined) this.quarantinedFirst.push(entry);
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
      ...(this.refused.size === 0 ? {} : { refused: this.refused.size }),
    };
  }
}
