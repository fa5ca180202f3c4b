/** Dividing a schedule into shards. */
import fc from 'fast-check';
import { MAX_SHARDS } from '../../../../src/core/contract/replay.ts';
import { replayKeys } from '../../../../src/core/contract/work-keys.ts';
import type { ShardBounds } from '../../../../src/replay/cloud/limits.ts';
import { writeShards } from '../../../../src/replay/cloud/plan/sharding.ts';
import { type CaptureObject, readSchedule } from '../../../../src/replay/cloud/work-bucket/schedule-file.ts';
import type { ScheduledEntry } from '../../../../src/replay/schedule/timing.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';

const BOUNDS: ShardBounds = {
  ...{ windowMs: 10_000, requests: 50, bytes: 10_000, perSecond: 5, connections: 4 },
  concurrency: Number.POSITIVE_INFINITY,
};

const placed = { bucket: 'b', path: '', size: 1e6 };
const FILES: CaptureObject[] = [0, 1, 2].map((i) => ({ ...placed, name: `f${i}.jsonl`, etag: `e${i}` }));

const scheduled = (dueMs: number, i: number, length = 10): ScheduledEntry => ({
  entry: { timeMs: 1000 + i, file: i % 3, line: i + 1, start: i * 100, length },
  dueMs,
  pass: 0,
  number: i,
});

/** Plans shards. @returns also where they were written */
async function plansFor(all: readonly ScheduledEntry[], bounds: ShardBounds) {
  const { storage, objects } = new MemoryStorage();
  function* batches() {
    for (let i = 0; i < all.length; i += 7) yield all.slice(i, i + 7);
  }
  const source = { batches: batches(), files: FILES, warmup: 0 };
  const plans = await writeShards(source, bounds, { storage, workBucket: 'w', run: 'r' });
  expect(objects.size).toBe(plans.length);
  return { plans, storage };
}

/** Plans shards and reads their schedules back. */
async function shardsFor(...of: Parameters<typeof plansFor>) {
  const { plans, storage } = await plansFor(...of);
  return Promise.all(
    plans.map(async (plan) => ({
      plan,
      schedule: await readSchedule(storage, 'w', replayKeys.schedule('r', plan.shard)),
    })),
  );
}

/** Increasing times with bursts and pauses, with lengths. */
const schedules = fc
  .array(
    fc.record({ gap: fc.oneof(fc.constant(0), fc.nat(300), fc.nat(15_000)), bytes: fc.integer({ min: 1, max: 3000 }) }),
    {
      minLength: 1,
      maxLength: 300,
    },
  )
  .map((steps) => {
    let due = 0;
    return steps.map(({ gap, bytes }, i) => {
      due += gap;
      return scheduled(due, i, bytes);
    });
  });

test('assigns every request to one shard, with its place, time and order', async () => {
  await fc.assert(
    fc.asyncProperty(schedules, async (all) => {
      const shards = await shardsFor(all, BOUNDS);
      expect(shards.map(({ plan }) => plan.shard)).toEqual(shards.map((_, i) => i));
      const lines = shards.flatMap(({ schedule: { files, entries }, plan }) => {
        expect(entries).toHaveLength(plan.requests);
        expect(entries[0]?.dueMs).toBe(plan.firstDueMs);
        for (const [i, { dueMs }] of entries.entries())
          expect(dueMs).toBeGreaterThanOrEqual(entries[i - 1]?.dueMs ?? 0);
        return entries.map(({ entry, dueMs, number }) => {
          expect(number).toBe(entry.line - 1);
          const { name, etag } = files[entry.file] as CaptureObject;
          return { ...entry, file: 0, name, etag, dueMs };
        });
      });
      const expected = all.map(({ entry, dueMs }) => {
        return { ...entry, file: 0, name: `f${entry.file}.jsonl`, etag: `e${entry.file}`, dueMs };
      });
      expect(lines.sort((a, b) => a.line - b.line)).toEqual(expected);
    }),
    { numRuns: 60 },
  );
});

test('keeps shards within their limits', async () => {
  await fc.assert(
    fc.asyncProperty(schedules, async (all) => {
      const shards = await shardsFor(all, BOUNDS);
      for (const { plan, schedule } of shards) {
        const stripes = shards.filter((other) => other.plan.window === plan.window);
        const window = stripes.flatMap((other) => other.schedule.entries);
        expect((schedule.entries.at(-1)?.dueMs ?? 0) - (plan.firstDueMs ?? 0)).toBeLessThan(BOUNDS.windowMs);
        expect(plan.requests).toBeLessThanOrEqual(BOUNDS.requests);
        // Within any second.
        const dues = schedule.entries.map(({ dueMs }) => dueMs);
        for (const [i, due] of dues.entries()) {
          const within = dues.slice(i).filter((other) => other - due < 1000).length;
          expect(within).toBeLessThanOrEqual(BOUNDS.perSecond);
        }
        // Bytes are bounded on average over the stripes, because requests are dealt to them in turn.
        const bytes = window.reduce((sum, { entry }) => sum + entry.length, 0);
        if (stripes.length < window.length) expect(bytes / stripes.length).toBeLessThanOrEqual(BOUNDS.bytes);
      }
    }),
    { numRuns: 60 },
  );
});

test('the shares of a concurrency add up to it, and each stripe has at least 1', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 200 }),
      fc.integer({ min: 1, max: 60 }),
      fc.boolean(),
      async (requests, whole, kept) => {
        const all = Array.from({ length: requests }, (_, i) => scheduled(kept ? Number.NaN : i, i));
        const bounds = { ...BOUNDS, requests: 200, concurrency: whole };
        const shards = await shardsFor(all, bounds);
        const shares = shards.map(({ plan }) => plan.maxConcurrency ?? Number.NaN);
        expect(shares.reduce((sum, share) => sum + share, 0)).toBe(whole);
        expect(Math.min(...shares)).toBeGreaterThanOrEqual(1);
        expect(shards.reduce((sum, { plan }) => sum + plan.requests, 0)).toBe(requests);
        if (kept) {
          expect(shards.every(({ plan }) => plan.firstDueMs === null)).toBe(true);
          const needed = Math.ceil(whole / bounds.connections);
          expect(shards).toHaveLength(Math.min(needed, requests, whole));
        }
      },
    ),
  );
});

test('pauses need no shard', async () => {
  const shards = await shardsFor(
    [0, 5, 3_600_000, 3_600_005].map((due, i) => scheduled(due, i)),
    BOUNDS,
  );
  const dues = shards.map(({ schedule }) => schedule.entries.map(({ dueMs }) => dueMs).join(' '));
  expect(dues).toEqual(['0 5', '3600000 3600005']);
});

describe('rejects replays that are too large', () => {
  const refused = (name: string, message = '') => ({ name, message: expect.stringContaining(message) });
  const unscheduled = (count: number, length?: number) =>
    Array.from({ length: count }, (_, i) => scheduled(Number.NaN, i, length));

  test('too many bytes for the concurrency', async () => {
    const all = unscheduled(12, 2_000);
    const capped = { ...BOUNDS, concurrency: 2 };
    expect((await plansFor(all.slice(0, 10), capped)).plans).toHaveLength(2);
    await expect(plansFor(all, capped)).rejects.toMatchObject(refused('TooManyRequests', 'requests of 20000 bytes'));
  });

  test('too many shards', async () => {
    const all = Array.from({ length: MAX_SHARDS + 1 }, (_, i) => scheduled(i * BOUNDS.windowMs, i));
    expect((await plansFor(all.slice(0, -1), BOUNDS)).plans).toHaveLength(MAX_SHARDS);
    await expect(plansFor(all, BOUNDS)).rejects.toMatchObject(refused('TooManyShards', 'at most 1000 shards'));
  });

  test('a concurrency cap over several windows', async () => {
    const all = [0, 9_999, 10_000].map((due, i) => scheduled(due, i));
    const capped = { ...BOUNDS, concurrency: 2 };
    expect((await plansFor(all.slice(0, 2), capped)).plans).toHaveLength(1);
    await expect(plansFor(all, capped)).rejects.toMatchObject(refused('CappedReplayTooLong'));
  });

  test('too many requests without a schedule', async () => {
    const bounds = { ...BOUNDS, requests: 50_000, bytes: 1e9, perSecond: 1e9 };
    await expect(plansFor(unscheduled(1_000_001), { ...bounds, concurrency: 1000 })).rejects.toMatchObject(
      refused('TooManyRequests'),
    );
    // A schedule is cut into windows before that.
    const all = Array.from({ length: 1_000_001 }, (_, i) => scheduled(1, i));
    const { plans } = await plansFor(all, bounds);
    expect(plans.map(({ window, requests }) => [window, requests])).toEqual([
      ...Array.from({ length: 20 }, () => [0, 50_000]),
      [1, 1],
    ]);
  });

  test('too many requests for the concurrency', async () => {
    const all = unscheduled(101);
    const capped = { ...BOUNDS, concurrency: 2 };
    expect((await plansFor(all.slice(0, 100), capped)).plans).toHaveLength(2);
    await expect(plansFor(all, capped)).rejects.toMatchObject(refused('TooManyRequests', '100 requests of '));
  });
});
