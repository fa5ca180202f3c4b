/** The sums of a chunk by its receipts that count; and a chunk that failed. */

import type { LineChunk } from '../captures/lines/chunks.ts';
import type { ObjectPlace } from '../core/contract/execution.ts';
import type { CaptureRange, ManifestLine } from '../core/contract/payloads.ts';
import type { EvaluateReceipt, LogCounts, LogReceipt, NamedError, VerdictCounts } from '../core/contract/receipts.ts';
import { emptyLogCounts, emptyVerdictCounts, verdictTotal } from './counts.ts';

/** The verdicts of a chunk: absent if they are lost, `off` if the run does not evaluate. */
type Evaluated = Pick<EvaluateReceipt, 'counts' | 'beyond'> | 'off' | undefined;

/** Planned lines that are in no receipt are lost. */
interface ChunkSums {
  lines: Pick<LogCounts, 'traced' | 'quarantined' | 'outsideWindow'> & { planned: number; lost: number };
  verdicts: VerdictCounts & { expected: number; lost: number };
}

/** @param scorers number of verdicts expected for each traced line, in addition to those in the receipt */
export function sumsOfChunk(
  { lines: planned }: Pick<ManifestLine, 'lines'>,
  logged: Pick<LogReceipt, 'counts'> | undefined,
  evaluated: Evaluated,
  scorers: number,
): ChunkSums {
  const { lines, traced, quarantined, outsideWindow } = logged?.counts ?? emptyLogCounts();
  return {
    lines: { planned, traced, quarantined, outsideWindow, lost: Math.max(0, planned - lines) },
    verdicts: verdictsOf(evaluated, traced * scorers),
  };
}

function verdictsOf(receipt: Evaluated, ofEach: number): ChunkSums['verdicts'] {
  const none = emptyVerdictCounts();
  if (receipt === 'off') return { ...none, expected: ofEach, evaluationOff: ofEach, lost: 0 };
  const expected = ofEach + (receipt?.beyond ?? 0);
  const total = receipt?.counts ?? none;
  const lost = Math.max(0, expected - verdictTotal(total));
  return { ...total, expected, failed: total.failed + lost, lost };
}

// -------------------------------------------------------------------------------------------------- a failed chunk
// As the summary of a run lists it.

/** A chunk that failed, or a range of a chunk whose file alone could not be read. */
export interface FailedChunk extends ObjectPlace, Pick<LineChunk, 'start' | 'end' | 'firstLine' | 'lines'> {
  chunk: number;
  step: 'log' | 'evaluate';
  /** Number of its ranges, if it has several. The location is that of the first range. */
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
