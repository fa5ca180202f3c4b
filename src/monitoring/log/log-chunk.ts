/** Logs one chunk of capture lines as traces: the evaluation of a chunk without scorers. */
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { LogReceipt } from '../../core/contract/receipts.ts';
import { EvaluateChunk } from '../evaluate/evaluate-chunk.ts';
import { withReceipt } from '../receipts.ts';
import type { WriteDependencies } from '../write/chunk-writer.ts';

const unasked = (): never => {
  throw new Error('A chunk that is only traced was judged');
};

const NO_JUDGE = { judge: { sourceId: '', judge: unasked, maxCostUsd: unasked }, scorers: [], always: () => undefined };

/**
 * Reads the chunk, writes the traces that are missing, and writes a receipt whether it succeeds or fails.
 *
 * @throws the error that stopped the chunk, by name, after the receipt is written
 */
export function logChunk(request: ChunkRequest, deps: WriteDependencies): Promise<LogReceipt> {
  const { storage, environment } = deps;
  const chunk = new EvaluateChunk(request, { ...deps, ...NO_JUDGE }, true);
  return withReceipt(
    { storage, workBucket: environment.WORK_BUCKET },
    {
      run: () => chunk.run(),
      receipt: (failure) => chunk.logReceipt(failure),
    },
  );
}
