/** Reads all predictions of the ledger. */
import type { Storage } from '../../src/core/aws/storage.ts';
import type { PredictionRow } from '../../src/core/contract/ground-truth.ts';
import { readPredictions } from '../../src/ground-truth/join/read-predictions.ts';
import { listFiles } from '../../src/ledger/files.ts';

export async function storedPredictions(storage: Storage): Promise<PredictionRow[]> {
  const work = { storage, workBucket: 'work' };
  const files = await Array.fromAsync(listFiles(work, 'ids/inferences'));
  const hours = new Set(files.flatMap(({ first, last }) => [first, last]));
  return Array.fromAsync(readPredictions(work, files, hours, () => true));
}
