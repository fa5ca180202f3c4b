/** Reads the whole index of predictions. */
import type { Storage } from '../../src/core/aws/storage.ts';
import type { PredictionRow } from '../../src/core/contract/ground-truth.ts';
import { listHours, readHour } from '../../src/ground-truth/index/index-store.ts';

export async function indexRows(storage: Storage): Promise<(PredictionRow & { hour: string })[]> {
  const rows: (PredictionRow & { hour: string })[] = [];
  for await (const hour of listHours(storage, 'work')) {
    for await (const row of readHour(storage, 'work', hour, () => true)) rows.push({ ...row, hour: hour.hour });
  }
  return rows;
}
