/** Estimates the cost of the judge from the captures, without a call to the judge. */

import { capturePathOf } from '../../captures/files/capture-path.ts';
import type { Capture } from '../../captures/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import type { CaptureRange } from '../../core/contract/payloads.ts';
import type { CostEstimate, NamedError } from '../../core/contract/receipts.ts';
import { PermanentError, toNamedError } from '../../core/errors/errors.ts';
import { ownFault } from '../../core/errors/own-fault.ts';
import { timeOf, withinTime } from '../../core/process/within-time.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { activeScorers } from '../../judge/active-scorers.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { heavyCapturesOf } from '../chunk/heavy-captures.ts';
import type { UnnumberedChunk } from '../chunk/ranges.ts';

/** Sums the cost of judging captures. Each part of a run has its own. */
export interface CostEstimator {
  add(capture: Capture, traceId: string, context: { variant?: string | undefined }): void;
  result(): CostEstimate;
}

/**
 * Adds every capture of a chunk that would be traced. Identical lines count once.
 *
 * @returns the ranges whose file cannot be read, each with the reason
 */
export async function estimateChunk(
  storage: Storage,
  chunk: UnnumberedChunk,
  environment: LambdaEnvironment,
  options: RunOptions,
  estimator: CostEstimator,
): Promise<{ range: CaptureRange; error: NamedError }[]> {
  const failed: { range: CaptureRange; error: NamedError }[] = [];
  const heavy = heavyCapturesOf({ run: '', chunk }, { environment }, activeScorers(environment, options.judge));
  try {
    for await (const read of readChunk(storage, chunk, environment, options, { heavy })) {
      const range = chunk.ranges[read.range];
      const line = read.kind === 'heavy' ? await read.read() : read;
      if (line.kind === 'unread' && range !== undefined) failed.push({ range, error: toNamedError(line.fault) });
      if (line.kind !== 'capture' || line.duplicate || line.replay !== undefined) continue;
      const { capture, traceId, raw } = line;
      const { variant } = capturePathOf(raw.place.key);
      try {
        withinTime(timeOf(capture), () => estimator.add(capture, traceId, { variant }));
      } catch (error) {
        // A run records an error for such a capture, and pays nothing.
        if (ownFault(error) === undefined) throw error;
      }
    }
  } catch (error) {
    const [range] = chunk.ranges;
    if (range === undefined || !(error instanceof PermanentError)) throw error;
    failed.push({ range, error: toNamedError(error) });
  } finally {
    heavy.close();
  }
  return failed;
}
