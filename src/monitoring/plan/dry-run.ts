/** Estimates the cost of the judge from the captures, without a call to the judge. */

import type { RunOptions } from '../../contract/input.ts';
import type { CostEstimate } from '../../contract/receipts.ts';
import { capturePathOf } from '../../formats/files/capture-path.ts';
import type { Capture } from '../../formats/types.ts';
import type { LambdaEnvironment } from '../../settings/environment.ts';
import { ownFault } from '../../shared/own-fault.ts';
import type { Storage } from '../../shared/storage.ts';
import { timeOf, withinTime } from '../../shared/within-time.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { tryToEvaluate } from '../evaluate/evaluate-trial.ts';
import type { UnnumberedChunk } from './retry-source.ts';

/** Sums the cost of judging captures. Each part of a run has its own. */
export interface CostEstimator {
  add(capture: Capture, traceId: string, context: { variant?: string | undefined }): void;
  result(): CostEstimate;
}

/** Adds every capture of a chunk that would be traced. Identical lines count once. */
export async function estimateRange(
  storage: Storage,
  chunk: UnnumberedChunk,
  environment: LambdaEnvironment,
  options: RunOptions,
  estimator: CostEstimator,
): Promise<void> {
  const { variant } = capturePathOf(chunk.key);
  for await (const line of readChunk(storage, chunk, environment, options.window, { tryOut: tryToEvaluate })) {
    if (line.kind !== 'capture' || line.duplicate) continue;
    const { capture, traceId } = line;
    try {
      withinTime(timeOf(capture), () => estimator.add(capture, traceId, { variant }));
    } catch (error) {
      // A run records an error for such a capture, and pays nothing.
      if (ownFault(error) === undefined) throw error;
    }
  }
}
