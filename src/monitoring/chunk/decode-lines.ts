/** Decodes the lines of a capture file, as every step does that reads captures. */

import { decodeLine } from '../../captures/decode.ts';
import type { LineRead } from '../../captures/lines/read-lines.ts';
import { lineTraceId } from '../../captures/trace/exchange.ts';
import type { NotTraffic } from '../../captures/trace/ids.ts';
import type { Capture, DecodedLine, DecodeOptions, LinePlace, QuarantineCause, RawLine } from '../../captures/types.ts';
import { BYTES_A_CHARACTER, tooHeavyNote } from '../../captures/weight.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import { functionMb, weightAtOnce } from '../../core/process/memory.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import type { HeavyCaptures, WorkedLine } from './heavy-captures.ts';

export interface CaptureLine {
  kind: 'capture';
  raw: RawLine;
  capture: Capture;
  traceId: string;
  /** The line is identical to an earlier line of the chunk. */
  duplicate: boolean;
  /** Absent: it is traffic. */
  notTraffic?: NotTraffic | undefined;
  /** The memory that the line takes when decoded, in bytes. */
  weight: number;
  /** Set if the line can be traced, but other work on it needs more memory than available. */
  onlyTraced?: QuarantineCause | undefined;
  /** Decodes the line once more, in the same way. Absent: its content is in another process. */
  again?: () => DecodedLine;
}

interface QuarantinedLine {
  kind: 'quarantine';
  place: LinePlace;
  /** Absent when the line is longer than `MAX_LINE_BYTES`; so is `traceId`. */
  bytes?: Buffer;
  traceId?: string;
  reason: QuarantineCause;
  /** The line cannot be decoded here. */
  tooHeavy?: true;
}

export type LightLine =
  | CaptureLine
  | QuarantinedLine
  | ({ kind: 'outsideWindow' } & Pick<CaptureLine, 'raw' | 'capture' | 'traceId'>);

/** A line that is too heavy for this process. */
export interface HeavyLine {
  kind: 'heavy';
  raw: RawLine;
  traceId: string;
  /** Does the work on the line in another process. The trace is then in memory, so call it when no other line is. */
  read(): Promise<LightLine>;
}

/** The settings that decide how a line is read. */
export type ReadSettings = Pick<LambdaEnvironment, 'CSV_HEADER' | 'FEATURE_NAMES' | 'MAX_LINE_BYTES'> &
  Partial<Pick<LambdaEnvironment, 'REDACT' | 'CONTENT' | 'redaction'>>;

/** Returns the options with which the stack's functions decode lines. */
export function decodeOptions(environment: ReadSettings, areExchanges = false): DecodeOptions {
  const { REDACT, CONTENT, redaction } = environment;
  if (redaction === undefined && (REDACT !== undefined || CONTENT === 'none')) {
    throw new Error('Captures were to be decoded without the masking that REDACT or CONTENT asks for');
  }
  return {
    csvHeader: environment.CSV_HEADER,
    ...(areExchanges ? { areExchanges } : {}),
    ...(environment.FEATURE_NAMES.length > 0 ? { featureNames: environment.FEATURE_NAMES } : {}),
    ...(redaction === undefined ? {} : { redaction }),
  };
}

const isOutside = (capture: Capture, window: RunOptions['window']): boolean =>
  window !== undefined &&
  ((window.fromMs !== undefined && capture.inferenceTimeMs < window.fromMs) ||
    (window.toMs !== undefined && capture.inferenceTimeMs >= window.toMs));

/** The total time of the other process for a chunk. A hostile chunk has hundreds of lines that need it. */
const HEAVY_MS = 60_000;

export interface LineReading {
  /** Returns the reason not to decode a line. */
  leaveOut?(place: LinePlace): QuarantineCause | undefined | Promise<QuarantineCause | undefined>;
  /** Does the work on heavy lines. Absent: they are kept as captured, if they are not too heavy even for that. */
  heavy?: Pick<HeavyCaptures, 'ready' | 'work'>;
  /** Minimum weight of a heavy line. Default: the weight that a function may process at once. */
  maxWeight?: number;
}

/** The run and experiment of the lines. */
interface LinesOf {
  experimentId: string;
  /** The lines are the exchanges of a replay. */
  areExchanges?: boolean;
  window?: RunOptions['window'];
  /** The trace ids so far. */
  seen?: { has(id: string): boolean; add(id: string): void };
}

/** Decodes the lines of a chunk. A line identical to an earlier one is marked as its duplicate. */
export class LineDecoder {
  readonly #settings: ReadSettings;
  readonly #options: DecodeOptions;
  readonly #how: LineReading;
  readonly #of: LinesOf & Required<Pick<LinesOf, 'seen'>>;
  /** Decoded heavy lines by trace id, without their traces. */
  readonly #heavy = new Map<string, DecodedLine>();
  #heavyMs = 0;

  constructor(settings: ReadSettings, of: LinesOf, how: LineReading) {
    this.#settings = settings;
    this.#options = { ...decodeOptions(settings, of.areExchanges), ...(how.maxWeight && { maxWeight: how.maxWeight }) };
    this.#of = { seen: new Set(), ...of };
    this.#how = how;
  }

  async decode(line: LineRead): Promise<LightLine | HeavyLine> {
    if (line.kind === 'tooLong') {
      return { kind: 'quarantine', place: line.place, reason: tooLong(line.place, this.#settings) };
    }
    const { raw } = line;
    const { place, bytes } = raw;
    const traceId = lineTraceId(this.#of.experimentId, bytes, this.#of.areExchanges === true);
    const reason = await this.#how.leaveOut?.(place);
    if (reason !== undefined) return { kind: 'quarantine', place, bytes, traceId, reason };
    const isLong = bytes.length * BYTES_A_CHARACTER > (this.#how.maxWeight ?? weightAtOnce());
    const again = (): DecodedLine => decodeLine(raw, this.#options);
    const first = isLong ? undefined : again();
    if (first !== undefined && !first.tooHeavy) return this.#lineOf(raw, traceId, first, again);
    // No closure here may refer to `first`: all closures, including `again`, would keep it in memory.
    const isKept = first?.kind === 'capture';
    return { kind: 'heavy', raw, traceId, read: () => this.#readHeavy(raw, traceId, isKept) };
  }

  #lineOf(raw: RawLine, traceId: string, read: WorkedLine, again?: () => DecodedLine): LightLine {
    const { place, bytes } = raw;
    if (read.kind === 'quarantine') {
      return { kind: 'quarantine', place, bytes, traceId, reason: read.reason, tooHeavy: read.tooHeavy };
    }
    const { capture } = read;
    if (isOutside(capture, this.#of.window)) return { kind: 'outsideWindow', raw, capture, traceId };
    const duplicate = this.#of.seen.has(traceId);
    this.#of.seen.add(traceId);
    const onlyTraced = read.isCut && tooHeavyFor(raw);
    // The captured reply is decoded in addition to the reply that is compared with it.
    const { start = 0, end = -1 } = capture.exchange?.captured ?? {};
    const weight = read.weight + (end + 1 - start) * BYTES_A_CHARACTER;
    return { kind: 'capture', raw, capture, traceId, duplicate, weight, onlyTraced, ...(again && { again }) };
  }

  /** @param isKept whether the line can be kept as captured in this process */
  async #readHeavy(raw: RawLine, traceId: string, isKept: boolean): Promise<LightLine> {
    const kept = { ...this.#options, keepRaw: tooHeavyNote() };
    const known = this.#heavy.get(traceId);
    const line = known ?? (await this.#worked(raw, isKept ? [this.#options] : [this.#options, kept]));
    const again = line === undefined && isKept ? () => decodeLine(raw, kept) : undefined;
    const read = line ?? again?.() ?? tooHeavy(raw);
    // A line that is identical needs no trace of its own.
    const bare = read.kind === 'capture' ? { ...read, capture: { ...read.capture, results: undefined } } : read;
    this.#heavy.set(traceId, bare);
    return this.#lineOf(raw, traceId, read, again);
  }

  /**
   * Works on a line as it is, or else keeps it as captured. @returns `undefined` if each attempt needs too much memory
   * or time
   */
  async #worked(raw: RawLine, attempts: readonly DecodeOptions[]): Promise<WorkedLine | undefined> {
    // MLflow may be slow to return the facts that the process needs.
    await this.#how.heavy?.ready();
    for (const options of attempts) {
      if (this.#heavyMs > HEAVY_MS) return undefined;
      const started = performance.now();
      const line = await this.#how.heavy?.work(raw, options);
      this.#heavyMs += performance.now() - started;
      // A trace without the rest of the work is worse than a line as captured.
      if (line !== undefined && (line.isCut === undefined || options.keepRaw !== undefined)) return line;
    }
    return undefined;
  }
}

const tooHeavyFor = ({ bytes }: RawLine): QuarantineCause => ({
  name: 'LineTooHeavy',
  message:
    `The line has ${bytes.length} bytes and needs more memory than a function of ${functionMb()} MB has. ` +
    'Raise LAMBDA_MEMORY_MB to process it, or lower MAX_LINE_BYTES to skip such lines unread.',
});

const tooHeavy = (raw: RawLine): DecodedLine => ({ kind: 'quarantine', tooHeavy: true, reason: tooHeavyFor(raw) });

const tooLong = ({ start, end }: LinePlace, { MAX_LINE_BYTES: most }: ReadSettings): QuarantineCause => ({
  name: 'LineTooLong',
  message: `The line has ${end - start + 1} bytes; MAX_LINE_BYTES allows ${most}. The quarantine refers to the line, and does not contain its bytes.`,
});
