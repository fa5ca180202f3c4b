/** Counts that are made again from receipts: what differs is written and named, what cannot be known is kept. */
import { setTimeout } from 'node:timers/promises';
import { rebuiltPage } from '../../../bin/commands/rates.ts';
import { CONTRACT } from '../../../src/core/contract/contract.ts';
import type { QualityCounts } from '../../../src/core/contract/quality.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { rebuildCounts } from '../../../src/monitoring/rebuild-counts.ts';
import { readCounts, writeCounts } from '../../../src/quality/counts-store.ts';
import { daysWithCounts } from '../../../src/quality/day-objects.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { putPlan } from '../../helpers/planned-run.ts';

const [DAY, NEXT] = ['2026-11-20', '2026-11-21'];
const counts = (captures: number, day = DAY): QualityCounts => ({
  [`${day}T10`]: { Blue: { captures, scorers: { safety: { 1: { captures, values: { yes: captures } } } } } },
});

class Bucket extends MemoryStorage {
  /** A finished run of one chunk for each of these; `undefined` leaves no receipt. */
  run(name: string, chunks: (QualityCounts | undefined)[], planned = true): void {
    if (planned) putPlan(this, name, [chunks.map((_, chunk) => ({ chunk, lines: 1, ranges: [] }))]);
    for (const [chunk, quality] of chunks.entries()) {
      if (quality === undefined) continue;
      const facts = { run: name, chunk, attempt: 0, requestId: 'q', startedAt: '1', endedAt: '2', ok: true, quality };
      const spend = { calls: 0, inputTokens: 0, outputTokens: 0, usd: 0 };
      const rest = { step: 'evaluate', spend, log: { step: 'log', attempt: 0, ok: true } };
      this.put(workKeys.receipt(name, chunk, 'evaluate', 0, 'q'), { ...facts, ...rest });
    }
  }

  async captures(): Promise<Record<string, number>> {
    const found: Record<string, number> = {};
    for await (const { run, hours } of readCounts(
      this.storage,
      'w',
      (await daysWithCounts(this.storage, 'w')).map(({ day }) => day),
    )) {
      for (const { Blue } of Object.values(hours)) found[run] = (found[run] ?? 0) + (Blue?.captures ?? 0);
    }
    return found;
  }

  rebuild = (isInside = (_: string) => true, writes = true) =>
    rebuildCounts({ storage: this.storage, workBucket: 'w' }, isInside, writes);
}

async function bucketOfRuns(): Promise<Bucket> {
  const bucket = new Bucket();
  bucket.run('same', [counts(3), counts(4)]);
  await writeCounts(bucket.storage, 'w', 'same', counts(7));
  bucket.run('wrong', [counts(5)]);
  await writeCounts(bucket.storage, 'w', 'wrong', { ...counts(1), ...counts(9, NEXT) });
  bucket.run('never-summed', [counts(2, NEXT)]);
  bucket.run('invoke-directly', [counts(1)], false);
  await writeCounts(bucket.storage, 'w', 'expired', counts(8));
  bucket.run('half-expired', [undefined, counts(1)]);
  await writeCounts(bucket.storage, 'w', 'half-expired', counts(6));
  // Counts that a run writes in the millisecond in which a rebuild begins, or later, are the run's own and stay.
  await setTimeout(2);
  return bucket;
}

test('runs are added up again; counts whose receipts are gone are kept and named', async () => {
  const bucket = await bucketOfRuns();
  const before = await bucket.captures();
  const tried = await bucket.rebuild(undefined, false);
  expect(await bucket.captures()).toEqual(before);
  const made = await bucket.rebuild();
  expect(made).toEqual(tried);
  expect(made).toEqual({
    rebuilt: ['invoke-directly', 'never-summed', 'same', 'wrong'],
    kept: { expired: 'its receipts are gone', 'half-expired': '1 of its 2 chunks have no receipt' },
  });
  const after = {
    ...{ same: 7, wrong: 5, 'never-summed': 2, 'invoke-directly': 1 },
    ...{ expired: 8, 'half-expired': 6 },
  };
  expect(await bucket.captures()).toEqual(after);
  expect(rebuiltPage(made, false)).toContain('added up again: wrong');
  expect(rebuiltPage(made, false)).toContain('kept: expired: its receipts are gone');
  await bucket.rebuild();
  expect(await bucket.captures()).toEqual(after);
});

test('only the days that are asked for are rebuilt', async () => {
  const bucket = await bucketOfRuns();
  const { rebuilt } = await bucket.rebuild((day) => day === NEXT);
  expect(rebuilt).toEqual(['never-summed', 'wrong']);
  expect(await bucket.captures()).toMatchObject({ wrong: 1, 'never-summed': 2 });
});

test('a run of another contract keeps its counts', async () => {
  const bucket = new Bucket();
  putPlan(bucket, 'old', [[{ chunk: 0, lines: 1, ranges: [] }]], { contract: CONTRACT + 1 });
  await writeCounts(bucket.storage, 'w', 'old', counts(3));
  const { kept } = await bucket.rebuild();
  expect(kept.old).toMatch(/^ContractChanged/);
  expect(await bucket.captures()).toEqual({ old: 3 });
});

test('a run that ends while its receipts are read keeps its own counts', async () => {
  const bucket = new Bucket();
  bucket.run('running', [counts(1)]);
  const list = bucket.list.bind(bucket);
  let ended = false;
  bucket.list = async function* (_: string, prefix: string, startAfter?: string) {
    yield* list(_, prefix, startAfter);
    if (prefix !== workKeys.receiptPrefix('running') || ended) return;
    ended = true;
    await setTimeout(2);
    await writeCounts(bucket.storage, 'w', 'running', counts(5));
    await setTimeout(2);
  };
  await bucket.rebuild();
  expect(ended).toBe(true);
  expect(await bucket.captures()).toEqual({ running: 5 });
});
