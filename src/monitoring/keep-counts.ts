/** Counts what a run has done that an upgrade has ended. */
import type { Storage } from '../core/aws/storage.ts';
import { writeCounts } from '../quality/counts-store.ts';
import { RunSums } from '../quality/run-sums.ts';
import { qualityOfChunk } from './chunk-quality.ts';
import { emptyChunkState, foldReceipt, readReceipts } from './receipts.ts';

/** Writes the counts that are in the receipts of a run, whose other fields an earlier version may have written in another form. */
export async function keepCounts(storage: Storage, workBucket: string, run: string): Promise<void> {
  const sums = new RunSums();
  let state = emptyChunkState();
  let chunk: number | undefined;
  for await (const receipt of readReceipts(storage, workBucket, run)) {
    if (receipt.chunk !== chunk) {
      sums.add(qualityOfChunk(state));
      state = emptyChunkState();
      chunk = receipt.chunk;
    }
    foldReceipt(state, receipt);
  }
  sums.add(qualityOfChunk(state));
  await writeCounts(storage, workBucket, run, sums.counts);
}
