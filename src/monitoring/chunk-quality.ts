/** What a run has done with a chunk: from the receipts of its attempts, each of which reports all attempts so far. */

import type { QualityCounts, QualityFailures } from '../core/contract/quality.ts';
import type { Receipt } from '../core/contract/receipts.ts';
import { maxByMagnitude } from '../quality/count-tree.ts';
import type { ChunkState } from './receipts.ts';

export function qualityOfChunk({ log, evaluate, receipts }: ChunkState): QualityCounts {
  // What failed attempts have written is in MLflow. Each knows a part of it.
  const knowing = (step: Receipt['step'], done?: Receipt): Receipt[] =>
    done === undefined ? receipts.filter((receipt) => receipt.step === step) : [done];
  const counts: QualityCounts = {};
  // Where the captures of a run are traced without its judge after all, both steps know them.
  for (const { quality = {} } of [...knowing('evaluate', evaluate.done), ...knowing('log', log.done)]) {
    maxByMagnitude(counts, quality);
  }
  return counts;
}

/** Returns the captures that failed an objective, as each attempt knew them. */
export const failuresOfChunk = ({ log, evaluate }: ChunkState): QualityFailures[] =>
  [log.done, log.failed, evaluate.done, evaluate.failed].flatMap((receipt) =>
    receipt?.failures ? [receipt.failures] : [],
  );
