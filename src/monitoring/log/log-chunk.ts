/** Logs one chunk of capture lines as traces. A line that is not a capture record goes to quarantine with the reason. */
import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { LogReceipt } from '../../core/contract/receipts.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import type { Judge } from '../../judge/types.ts';
import { EvaluateChunk } from '../evaluate/evaluate-chunk.ts';
import { withReceipt } from '../receipts.ts';
import type { WriteDependencies } from '../write/chunk-writer.ts';

interface LogDependencies extends WriteDependencies {
  storage: Storage;
  environment: LambdaEnvironment;
}

const NO_JUDGE: Judge = {
  sourceId: '',
  maxCostUsd: () => null,
  judge: () => Promise.reject(new Error('A chunk that is only traced was judged')),
};

/**
 * Reads the chunk, writes the traces that are missing, and writes a receipt whether it succeeds or fails.
 *
 * @throws the error that stopped the chunk, by name, after the receipt is written
 */
export function logChunk(request: ChunkRequest, deps: LogDependencies): Promise<LogReceipt> {
  const logging = new EvaluateChunk(request, { ...deps, judge: NO_JUDGE, scorers: [], always: () => undefined });
  const attempt = { run: () => logging.run(), receipt: (failure: unknown) => logging.logReceipt(failure) };
  return withReceipt(deps.storage, deps.environment.WORK_BUCKET, attempt);
}
