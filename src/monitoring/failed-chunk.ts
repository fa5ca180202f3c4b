/** A chunk that failed, as the summary of a run lists it. */

import type { LineChunk } from '../captures/lines/chunks.ts';
import type { ObjectPlace } from '../core/contract/execution.ts';
import type { CaptureRange, ManifestLine } from '../core/contract/payloads.ts';
import type { NamedError } from '../core/contract/receipts.ts';

/** A chunk that failed, or a range of it whose file could not be read although the others were. */
export interface FailedChunk extends ObjectPlace, Pick<LineChunk, 'start' | 'end' | 'firstLine' | 'lines'> {
  chunk: number;
  step: 'log' | 'evaluate';
  /** The number of its ranges, if it has several; the place is that of the first. */
  ranges?: number;
  error: NamedError;
}

/** @param error the last one of the step; `undefined` if it left no receipt */
export function failedChunk(
  { chunk, lines, ranges }: ManifestLine,
  step: FailedChunk['step'],
  error: NamedError | undefined,
): FailedChunk {
  const { bucket, key, start, end, firstLine } = ranges[0] as CaptureRange;
  const unknown = {
    name: 'NoReceipt',
    message: `The ${step} step left no receipt: it timed out, was killed or never started`,
  };
  const several = ranges.length > 1 ? { ranges: ranges.length } : {};
  const place = { bucket, key, start, end, firstLine, lines };
  return { chunk, step, ...several, ...place, error: error ?? unknown };
}
