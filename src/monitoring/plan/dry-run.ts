/** Forecasts the judge's bill from the captures themselves, without asking it anything. */

import type { RunOptions } from '../../contract/input.ts';
import type { CostEstimate } from '../../contract/receipts.ts';
import { capturePathOf } from '../../formats/record/capture-path.ts';
import type { Capture } from '../../formats/types.ts';
import type { LambdaEnvironment } from '../../settings/environment.ts';
import { ownFault } from '../../shared/own-fault.ts';
import type { Storage } from '../../shared/storage.ts';
import { timeOf, withinTime } from '../../shared/within-time.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { tryToEvaluate } from '../evaluate/evaluate-trial.ts';
import type { UnnumberedChunk } from './retry-source.ts';

/** Sums up what judging the captures would cost; made anew for each part. */
export interface CostEstimator {
  add(capture: Capture, traceId: string, context: { variant?: string | undefined }): void;
  result(): CostEstimate;
}

/** Adds every capture of a chunk that would be traced, each distinct line once. */
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
      // A run records an error on it, and pays nothing.
      if (ownFault(error) === undefined) throw error;
    }
  }
}
