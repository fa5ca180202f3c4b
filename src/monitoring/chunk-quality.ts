/** What a run has done with a chunk: from the receipts of its attempts, each of which reports all attempts so far. */
import type { QualityCounts, QualityFailures } from '../core/contract/quality.ts';
import type { Receipt } from '../core/contract/receipts.ts';
import { takeFarthest } from '../quality/count-tree.ts';
import type { ChunkState, StepState } from './receipts.ts';

export function qualityOfChunk({ log, evaluate, failedCounts }: ChunkState): QualityCounts {
  const failedOf = (of: Receipt['step']) => failedCounts.filter(({ step }) => step === of);
  const counts = ofStep(evaluate, failedOf('evaluate'));
  // Where the captures of a run are traced without its judge after all, both steps know them.
  takeFarthest(counts, ofStep(log, failedOf('log')));
  return counts;
}

/** Returns the captures that failed an objective, as each attempt knew them. */
export const failuresOfChunk = ({ log, evaluate }: ChunkState): QualityFailures[] =>
  [log.done, log.failed, evaluate.done, evaluate.failed].flatMap((receipt) =>
    receipt?.failures ? [receipt.failures] : [],
  );

function ofStep<R extends Receipt>({ done }: StepState<R>, failed: ChunkState['failedCounts']): QualityCounts {
  const counts: QualityCounts = {};
  // What failed attempts have written is in MLflow. Each knows a part of it.
  for (const { quality } of done === undefined ? failed : [done]) takeFarthest(counts, quality ?? {});
  return counts;
}
