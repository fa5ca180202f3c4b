/** Reads the lines of one chunk back from S3, with what they decode to. */
import { decodeLine } from '../capture/decode.ts';
import { readLines } from '../capture/lines.ts';
import type { Capture, DecodeOptions, LinePlace, QuarantineReason, RawLine } from '../capture/types.ts';
import type { LambdaEnvironment } from '../common/environment.ts';
import type { Storage } from '../common/storage.ts';
import type { ManifestLine, RunOptions } from '../contract.ts';
import { traceIdOf } from '../trace/ids.ts';
import { openChunk } from './kept-lines.ts';

export interface CaptureLine {
  kind: 'capture';
  raw: RawLine;
  capture: Capture;
  traceId: string;
  duplicate: boolean;
}

export type ChunkLine =
  | CaptureLine
  | { kind: 'outsideWindow' }
  | { kind: 'quarantine'; place: RawLine['place']; bytes?: Buffer; reason: QuarantineReason };

export const decodeOptions = (environment: LambdaEnvironment): DecodeOptions => ({
  csvHeader: environment.CSV_HEADER,
  ...(environment.FEATURE_NAMES.length > 0 ? { featureNames: environment.FEATURE_NAMES } : {}),
});

const isOutside = (capture: Capture, window: RunOptions['window']): boolean =>
  window !== undefined &&
  ((window.fromMs !== undefined && capture.inferenceTimeMs < window.fromMs) ||
    (window.toMs !== undefined && capture.inferenceTimeMs >= window.toMs));

/**
 * The non-blank lines of a chunk in order, each one decoded. A line identical to an earlier one of the chunk is marked
 * as its duplicate: both are counted, they share one trace.
 *
 * @param leaveOut why a line is not decoded but goes to quarantine as it is
 * @throws PermanentError `CaptureChanged`, `CaptureMissing`; RetryableError `StorageUnavailable`.
 */
export async function* readChunk(
  storage: Storage,
  chunk: Omit<ManifestLine, 'chunk'>,
  environment: LambdaEnvironment,
  window: RunOptions['window'],
  leaveOut?: (place: LinePlace) => QuarantineReason | undefined,
): AsyncGenerator<ChunkLine> {
  const options = decodeOptions(environment);
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
    const left = leaveOut?.(line.raw.place);
    if (left !== undefined) {
      yield { kind: 'quarantine', place: line.raw.place, bytes: line.raw.bytes, reason: left };
      continue;
    }
    const decoded = decodeLine(line.raw, options);
    if (decoded.kind === 'quarantine') {
      yield { kind: 'quarantine', place: line.raw.place, bytes: line.raw.bytes, reason: decoded.reason };
    } else if (isOutside(decoded.capture, window)) {
      yield { kind: 'outsideWindow' };
    } else {
      const traceId = traceIdOf(chunk.experimentId, line.raw.bytes);
      yield { kind: 'capture', raw: line.raw, capture: decoded.capture, traceId, duplicate: seen.has(traceId) };
      seen.add(traceId);
    }
  }
}
