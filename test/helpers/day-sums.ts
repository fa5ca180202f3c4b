/** Counts of hours in a work bucket, as a merge keeps them. */
import type { Work } from '../../src/core/aws/storage.ts';
import type { QualityCounts } from '../../src/core/contract/quality.ts';
import { dayOf, writeFile } from '../../src/ledger/files.ts';
import { addHours } from '../../src/quality/cell.ts';
import { readSum, writeSum } from '../../src/quality/day-sums.ts';

/** Adds counts to those that are there. */
export async function writeCounts(work: Work, counts: QualityCounts): Promise<void> {
  for (const [day, hours] of Map.groupBy(Object.keys(counts), dayOf)) {
    const sum = await readSum(work, day);
    addHours(sum.hours, Object.fromEntries(hours.map((hour) => [hour, counts[hour] ?? {}])));
    const { key = '' } = (await writeFile(work, 'captures', day, [{ hour: `${day}T00` }], ['counts'])) ?? {};
    await writeSum(work, day, { ...sum, files: [...new Set([...sum.files, key])] });
  }
}
