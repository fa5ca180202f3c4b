/** Reads the whole index of predictions. */

import type { Storage } from '../../src/core/aws/storage.ts';
import type { PredictionRow } from '../../src/core/contract/ground-truth.ts';
import { type IndexHour, listHours, readHour } from '../../src/ground-truth/index/index-store.ts';

export async function indexHours(storage: Storage, window?: { from?: string; to?: string }): Promise<IndexHour[]> {
  const hours: IndexHour[] = [];
  for await (const hour of listHours(storage, 'work', window)) hours.push(hour);
  return hours;
}

export async function indexRows(storage: Storage): Promise<(PredictionRow & { hour: string })[]> {
  const rows: (PredictionRow & { hour: string })[] = [];
  for (const hour of await indexHours(storage)) {
    for await (const { ids, rowAt } of readHour(storage, 'work', hour)) {
      for (const index of ids.keys()) rows.push({ ...rowAt(index), hour: hour.hour });
    }
  }
  return rows;
}
