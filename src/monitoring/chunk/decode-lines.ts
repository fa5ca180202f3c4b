/** Decodes the lines of a capture file, as every step does that reads captures. */

import { decodeLine } from '../../captures/decode.ts';
import type { LineRead } from '../../captures/lines/read-lines.ts';
import { traceIdOf } from '../../captures/trace/ids.ts';
import type { Capture, DecodedLine, DecodeOptions, LinePlace, QuarantineCause, RawLine } from '../../captures/types.ts';
import { BYTES_A_CHARACTER, tooHeavyNote } from '../../captures/weight.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import { collectGarbage, functionMb, weightAtOnce } from '../../core/process/memory.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import type { TryOut } from './trial.ts';

export interface CaptureLine {
  kind: 'capture';
  raw: RawLine;
  capture: Capture;
  traceId: string;
  /** The line is identical to an earlier line of the chunk. */
  duplicate: boolean;
  /** The run of the replay that sent the request, if that is certain. */
  replay?: string | undefined;
  /** The memory that the line takes when decoded, in bytes. */
  weight: number;
  /** The line can be traced, but the rest of the work on it needs more memory than there is. */
  onlyTraced?: QuarantineCause | undefined;
  /** Decodes the line once more, in the same way. */
  again(): DecodedLine;
}

interface QuarantinedLine {
  kind: 'quarantine';
  place: LinePlace;
  /** Absent when the line is longer than `MAX_LINE_BYTES`; so is `traceId`. */
  bytes?: Buffer;
  traceId?: string;
  reason: QuarantineCause;
  /** This step cannot decode the line. Another step may have done so. */
  tooHeavy?: true;
}

export type DecodedChunkLine = CaptureLine | QuarantinedLine | { kind: 'outsideWindow' };

/** The settings that decide how a line is read. */
export type ReadSettings = Pick<LambdaEnvironment, 'CSV_HEADER' | 'FEATURE_NAMES' | 'MAX_LINE_BYTES'>;

/** How the stack's functions decode lines with these settings. */
export const decodeOptions = (environment: ReadSettings): DecodeOptions => ({
  csvHeader: environment.CSV_HEADER,
  ...(environment.FEATURE_NAMES.length > 0 ? { featureNames: environment.FEATURE_NAMES } : {}),
});

const isOutside = (capture: Capture, window: RunOptions['window']): boolean =>
  window !== undefined &&
  ((window.fromMs !== undefined && capture.inferenceTimeMs < window.fromMs) ||
    (window.toMs !== undefined && capture.inferenceTimeMs >= window.toMs));

/** The total time for the trials of a chunk. A hostile chunk has hundreds of lines that need one. */
const TRIALS_MS = 60_000;

/** How to decode a line that is too heavy to decode without a trial; `undefined` if it must not be decoded at all. */
type Ruling = { options: DecodeOptions; weight?: number; onlyTraced?: true } | undefined;

export interface LineReading {
  /** Returns the reason not to decode a line. */
  leaveOut?(place: LinePlace): QuarantineCause | undefined | Promise<QuarantineCause | undefined>;
  /** Runs the trial of a line that could exhaust the function’s memory or time. */
  tryOut: TryOut;
  /** Whether a line is traced even if the rest of the work on it does not succeed. */
  traces?: boolean;
  /** Frees as much memory as possible before a trial. */
  makeRoom?(): Promise<void>;
}

interface SeenIds {
  has(id: string): boolean;
  add(id: string): void;
}

/** What the lines belong to. */
interface LinesOf {
  experimentId: string;
  window?: RunOptions['window'];
  /** The trace ids so far. */
  seen?: SeenIds;
}

/** Decodes the lines of a chunk. A line identical to an earlier one is marked as its duplicate. */
export class LineDecoder {
  readonly #settings: ReadSettings;
  readonly #options: DecodeOptions;
  readonly #how: LineReading;
  readonly #of: LinesOf;
  readonly #seen: SeenIds;
  /** The rulings on heavy lines, by trace id. Identical lines share one. */
  readonly #rulings = new Map<string, Ruling>();
  #trialsMs = 0;

  constructor(settings: ReadSettings, of: LinesOf, how: LineReading) {
    this.#settings = settings;
    this.#options = decodeOptions(settings);
    this.#of = of;
    this.#seen = of.seen ?? new Set();
    this.#how = how;
  }

  async decode(line: LineRead): Promise<DecodedChunkLine> {
    if (line.kind === 'tooLong') {
      return { kind: 'quarantine', place: line.place, reason: tooLong(line.place, this.#settings) };
    }
    const { raw } = line;
    const { place, bytes } = raw;
    const traceId = traceIdOf(this.#of.experimentId, bytes);
    const leftOut = await this.#how.leaveOut?.(place);
    const read =
      leftOut === undefined
        ? await this.#read(raw, traceId)
        : { kind: 'quarantine' as const, reason: leftOut, tooHeavy: undefined };
    if (read.kind === 'quarantine') {
      return { kind: 'quarantine', place, bytes, traceId, reason: read.reason, tooHeavy: read.tooHeavy };
    }
    if (isOutside(read.capture, this.#of.window)) return { kind: 'outsideWindow' };
    const { capture, weight, again, onlyTraced } = read;
    const duplicate = this.#seen.has(traceId);
    this.#seen.add(traceId);
    return { kind: 'capture', raw, capture, traceId, duplicate, weight, again, onlyTraced };
  }

  async #read(raw: RawLine, traceId: string): Promise<DecodedLine & Pick<CaptureLine, 'again' | 'onlyTraced'>> {
    const first = raw.bytes.length * BYTES_A_CHARACTER > weightAtOnce() ? undefined : decodeLine(raw, this.#options);
    if (first !== undefined && !first.tooHeavy) return { ...first, again: () => decodeLine(raw, this.#options) };
    if (!this.#rulings.has(traceId)) this.#rulings.set(traceId, await this.#rule(raw, first?.kind === 'capture'));
    const ruling = this.#rulings.get(traceId);
    const again = (): DecodedLine => {
      if (ruling === undefined) return tooHeavy(raw);
      // The trial started with little garbage, and so must this.
      if (ruling.weight !== undefined) collectGarbage();
      return decodeLine(raw, ruling.options);
    };
    const decoded = again();
    const onlyTraced = ruling?.onlyTraced && tooHeavyFor(raw);
    return { ...decoded, ...(ruling?.weight === undefined ? {} : { weight: ruling.weight }), again, onlyTraced };
  }

  /** @param keeps whether the line is known to fit in memory as captured */
  async #rule(raw: RawLine, keeps: boolean): Promise<Ruling> {
    const whole = { ...this.#options, maxWeight: Number.MAX_VALUE };
    const kept = { ...this.#options, keepRaw: tooHeavyNote(), maxWeight: Number.MAX_VALUE };
    const { tryOut, traces, makeRoom } = this.#how;
    const attempts = (keeps ? [whole] : [whole, kept]).map((options) => ({ options, only: undefined }));
    const lesser = traces && !keeps ? [{ options: kept, only: 'trace' as const }] : [];
    for (const { options, only } of [...attempts, ...lesser]) {
      if (this.#trialsMs > TRIALS_MS) break;
      await makeRoom?.();
      const started = performance.now();
      const weight = await tryOut(raw, options, only);
      this.#trialsMs += performance.now() - started;
      if (weight !== undefined) return { options, weight, ...(only && { onlyTraced: true }) };
    }
    return keeps ? { options: kept } : undefined;
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
