/** Reads the lines of one chunk back from S3, with what they decode to. */

import type { RunOptions } from '../../contract/input.ts';
import type { ManifestLine } from '../../contract/payloads.ts';
import { decodeLine } from '../../formats/decode.ts';
import { readLines } from '../../formats/lines/read-lines.ts';
import type { Capture, DecodedLine, DecodeOptions, LinePlace, QuarantineCause, RawLine } from '../../formats/types.ts';
import { BYTES_A_CHARACTER, tooHeavyNote } from '../../formats/weight.ts';
import type { LambdaEnvironment } from '../../settings/environment.ts';
import { collectGarbage, functionMb, weightAtOnce } from '../../shared/memory.ts';
import type { Storage } from '../../shared/storage.ts';
import { traceIdOf } from '../../trace/ids.ts';
import { openChunk } from './kept-lines.ts';
import type { TryOut } from './trial.ts';

export interface CaptureLine {
  kind: 'capture';
  raw: RawLine;
  capture: Capture;
  traceId: string;
  duplicate: boolean;
  /** Bytes of memory that it becomes. */
  weight: number;
  /** Decodes it once more, in the same way. */
  again(): DecodedLine;
}

type ChunkLine =
  | CaptureLine
  | { kind: 'outsideWindow' }
  | {
      kind: 'quarantine';
      place: RawLine['place'];
      bytes?: Buffer;
      reason: QuarantineCause;
      /** This step cannot take it; another may have taken it. */
      tooHeavy?: true;
    };

const decodeOptions = (environment: LambdaEnvironment): DecodeOptions => ({
  csvHeader: environment.CSV_HEADER,
  ...(environment.FEATURE_NAMES.length > 0 ? { featureNames: environment.FEATURE_NAMES } : {}),
});

const isOutside = (capture: Capture, window: RunOptions['window']): boolean =>
  window !== undefined &&
  ((window.fromMs !== undefined && capture.inferenceTimeMs < window.fromMs) ||
    (window.toMs !== undefined && capture.inferenceTimeMs >= window.toMs));

/** Trials of a chunk's lines may take this long together; a hostile chunk has hundreds. */
const TRIALS_MS = 60_000;

/** How a line that is too heavy to be taken apart unseen is decoded; `undefined`: not at all. */
type Ruling = { options: DecodeOptions; weight?: number } | undefined;

interface Reading {
  /** Why a line is not decoded but goes to quarantine as it is. */
  leaveOut?(place: LinePlace): QuarantineCause | undefined;
  /** Tries a line out that could take the function's memory or time away. */
  tryOut: TryOut;
  /** Gives back what memory it can before a line is tried out. */
  makeRoom?(): Promise<void>;
}

class LineDecoder {
  readonly #options: DecodeOptions;
  readonly #how: Reading;
  /** Of heavy lines, by trace id: twins are alike. */
  readonly #rulings = new Map<string, Ruling>();
  #trialsMs = 0;

  constructor(options: DecodeOptions, how: Reading) {
    this.#options = options;
    this.#how = how;
  }

  async decode(raw: RawLine, traceId: string): Promise<DecodedLine & { again(): DecodedLine }> {
    const first = raw.bytes.length * BYTES_A_CHARACTER > weightAtOnce() ? undefined : decodeLine(raw, this.#options);
    if (first !== undefined && !first.tooHeavy) return { ...first, again: () => decodeLine(raw, this.#options) };
    if (!this.#rulings.has(traceId)) this.#rulings.set(traceId, await this.#rule(raw, first?.kind === 'capture'));
    const ruling = this.#rulings.get(traceId);
    const again = (): DecodedLine => {
      if (ruling === undefined) return tooHeavy(raw);
      // The trial began with little garbage.
      if (ruling.weight !== undefined) collectGarbage();
      return decodeLine(raw, ruling.options);
    };
    const decoded = again();
    return { ...decoded, ...(ruling?.weight === undefined ? {} : { weight: ruling.weight }), again };
  }

  /** @param keeps it is known that the line can be kept as captured. */
  async #rule(raw: RawLine, keeps: boolean): Promise<Ruling> {
    const whole = { ...this.#options, maxWeight: Number.MAX_VALUE };
    const kept = { ...this.#options, keepRaw: tooHeavyNote(), maxWeight: Number.MAX_VALUE };
    for (const options of keeps ? [whole] : [whole, kept]) {
      const { tryOut, makeRoom } = this.#how;
      if (this.#trialsMs > TRIALS_MS) break;
      await makeRoom?.();
      const started = performance.now();
      const weight = await tryOut(raw, options);
      this.#trialsMs += performance.now() - started;
      if (weight !== undefined) return { options, weight };
    }
    return keeps ? { options: kept } : undefined;
  }
}

const tooHeavy = ({ bytes }: RawLine): DecodedLine => ({
  kind: 'quarantine',
  tooHeavy: true,
  reason: {
    name: 'LineTooHeavy',
    message:
      `The line has ${bytes.length} bytes and takes more memory than a function of ${functionMb()} MB has. ` +
      'A larger LAMBDA_MEMORY_MB takes it; a smaller MAX_LINE_BYTES leaves such lines out unread.',
  },
});

/**
 * The non-blank lines of a chunk in order, each one decoded. A line identical to an earlier one of the chunk is marked
 * as its duplicate: both are counted, they share one trace.
 *
 * @throws PermanentError `CaptureChanged`, `CaptureMissing`; RetryableError `StorageUnavailable`.
 */
export async function* readChunk(
  storage: Storage,
  chunk: Omit<ManifestLine, 'chunk'>,
  environment: LambdaEnvironment,
  window: RunOptions['window'],
  how: Reading,
): AsyncGenerator<ChunkLine> {
  const decoder = new LineDecoder(decodeOptions(environment), how);
  const seen = new Set<string>();
  const stream = await openChunk(storage, chunk, environment.WORK_BUCKET);
  for await (const line of readLines(stream, chunk, { maxLineBytes: environment.MAX_LINE_BYTES })) {
    if (line.kind === 'tooLong') {
      const reason = {
        name: 'LineTooLong',
        message: `The line has ${line.place.end - line.place.start + 1} bytes; ${environment.MAX_LINE_BYTES} are allowed (MAX_LINE_BYTES). It is kept by reference.`,
      };
      yield { kind: 'quarantine', place: line.place, reason };
      continue;
    }
    const left = how.leaveOut?.(line.raw.place);
    if (left !== undefined) {
      yield { kind: 'quarantine', place: line.raw.place, bytes: line.raw.bytes, reason: left };
      continue;
    }
    const traceId = traceIdOf(chunk.experimentId, line.raw.bytes);
    const decoded = await decoder.decode(line.raw, traceId);
    if (decoded.kind === 'quarantine') {
      const { reason, tooHeavy } = decoded;
      const { place, bytes } = line.raw;
      yield { kind: 'quarantine', place, bytes, reason, ...(tooHeavy ? { tooHeavy } : {}) };
    } else if (isOutside(decoded.capture, window)) {
      yield { kind: 'outsideWindow' };
    } else {
      const { capture, weight, again } = decoded;
      const duplicate = seen.has(traceId);
      yield { kind: 'capture', raw: line.raw, capture, traceId, duplicate, weight, again };
      seen.add(traceId);
    }
  }
}
