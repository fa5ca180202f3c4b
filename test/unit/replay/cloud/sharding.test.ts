/** Dividing a schedule into shards. */
import fc from 'fast-check';
import type { Storage } from '../../../../src/core/aws/storage.ts';
import { MAX_SHARDS } from '../../../../src/core/contract/replay.ts';
import { replayKeys } from '../../../../src/core/contract/work-keys.ts';
import type { ShardBounds } from '../../../../src/replay/cloud/limits.ts';
import { type Concurrency, shareOf, stripesOf, WindowCutter } from '../../../../src/replay/cloud/plan/sharding.ts';
import { writeSchedule } from '../../../../src/replay/cloud/plan/write-schedule.ts';
import { type CaptureObject, readSchedule } from '../../../../src/replay/cloud/work-bucket/schedule-file.ts';
import type { ScheduledEntry } from '../../../../src/replay/schedule/timing.ts';

const BOUNDS: ShardBounds = { windowMs: 10_000, requests: 50, bytes: 10_000, perSecond: 5, connections: 4 };

const FILES: CaptureObject[] = [0, 1, 2].map((i) => ({
  bucket: 'b',
  name: `f${i}.jsonl`,
  path: '',
  etag: `e${i}`,
  size: 1e6,
}));

const scheduled = (dueMs: number, i: number, length = 10): ScheduledEntry => ({
  entry: { timeMs: 1000 + i, file: i % 3, line: i + 1, start: i * 100, length },
  dueMs,
  pass: 0,
});

function windowsOf(all: readonly ScheduledEntry[], bounds: ShardBounds, concurrency?: Concurrency) {
  const cutter = new WindowCutter(bounds, concurrency);
  for (const { dueMs, entry } of all) cutter.add(dueMs, entry.length);
  return cutter.windows();
}

/** Plans shards and reads their schedules back. */
async function shardsFor(all: readonly ScheduledEntry[], bounds: ShardBounds, concurrency?: Concurrency) {
  const written = new Map<string, string>();
  const storage = {
    putText: async (_: string, key: string, text: string) => {
      written.set(key, text);
    },
  } as unknown as Storage;
  async function* batches() {
    for (let i = 0; i < all.length; i += 7) yield all.slice(i, i + 7);
  }
  const conversations = { turnOf: ({ line }: { line: number }) => ({ session: line, turnIndex: 0 }) };
  const source = { batches: batches(), files: FILES, conversations, warmup: 0 };
  const windows = windowsOf(all, bounds, concurrency);
  const plans = await writeSchedule(source, windows, bounds, concurrency, { storage, bucket: 'w', run: 'r' });
  expect(written.size).toBe(plans.length);
  return plans.map((plan) => ({
    plan,
    schedule: readSchedule(written.get(replayKeys.schedule('r', plan.shard)) ?? '', 'test'),
  }));
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
        expect([entries[0]?.dueMs, entries.at(-1)?.dueMs]).toEqual([plan.firstDueMs, plan.lastDueMs]);
        for (const [i, { dueMs }] of entries.entries())
          expect(dueMs).toBeGreaterThanOrEqual(entries[i - 1]?.dueMs ?? 0);
        return entries.map(({ entry, dueMs, turn }) => {
          expect(turn?.session).toBe(entry.line);
          return [
            files[entry.file]?.name,
            files[entry.file]?.etag,
            entry.line,
            entry.start,
            entry.length,
            entry.timeMs,
            dueMs,
          ];
        });
      });
      const expected = all.map(({ entry, dueMs }) => [
        `f${entry.file}.jsonl`,
        `e${entry.file}`,
        entry.line,
        entry.start,
        entry.length,
        entry.timeMs,
        dueMs,
      ]);
      const byLine = (a: unknown[], b: unknown[]): number => Number(a[2]) - Number(b[2]);
      expect(lines.sort(byLine)).toEqual(expected);
    }),
    { numRuns: 60 },
  );
});

test('keeps shards within their limits', async () => {
  await fc.assert(
    fc.asyncProperty(schedules, async (all) => {
      const shards = await shardsFor(all, BOUNDS);
      const windows = windowsOf(all, BOUNDS);
      for (const { plan, schedule } of shards) {
        const window = windows[plan.window];
        if (!window) throw new Error('A shard without a window');
        expect((plan.lastDueMs ?? 0) - (plan.firstDueMs ?? 0)).toBeLessThan(BOUNDS.windowMs);
        expect(plan.requests).toBeLessThanOrEqual(BOUNDS.requests);
        // Within any second.
        const dues = schedule.entries.map(({ dueMs }) => dueMs);
        for (const [i, due] of dues.entries()) {
          const within = dues.slice(i).filter((other) => other - due < 1000).length;
          expect(within).toBeLessThanOrEqual(BOUNDS.perSecond);
        }
        // Bytes are bounded on average over the stripes, because requests are dealt to them in turn.
        const stripes = stripesOf(window, BOUNDS);
        expect(Math.min(window.bytes / stripes, stripes === window.requests ? 0 : window.bytes)).toBeLessThanOrEqual(
          BOUNDS.bytes,
        );
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
        const concurrency = { requests: whole, kept };
        const bounds = { ...BOUNDS, requests: 200 };
        const shards = await shardsFor(all, bounds, concurrency);
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
  expect([0, 1, 2].map((stripe) => shareOf(8, 3, stripe))).toEqual([3, 3, 2]);
});

test('pauses need no shard', async () => {
  const shards = await shardsFor([0, 5, 3_600_000, 3_600_005].map(scheduled1), BOUNDS);
  expect(shards.map(({ plan }) => [plan.firstDueMs, plan.lastDueMs])).toEqual([
    [0, 5],
    [3_600_000, 3_600_005],
  ]);
});

function scheduled1(dueMs: number, i: number): ScheduledEntry {
  return scheduled(dueMs, i);
}

describe('rejects replays that are too large', () => {
  test('too many bytes for the concurrency', () => {
    const all = Array.from({ length: 12 }, (_, i) => scheduled(Number.NaN, i, 2_000));
    expect(windowsOf(all.slice(0, 10), BOUNDS, { requests: 2, kept: false })).toHaveLength(1);
    expect(() => windowsOf(all, BOUNDS, { requests: 2, kept: false })).toThrow(
      expect.objectContaining({ name: 'TooManyRequests', message: expect.stringContaining('requests of 20000 bytes') }),
    );
  });

  test('too many shards', () => {
    const all = Array.from({ length: MAX_SHARDS + 1 }, (_, i) => scheduled(i * BOUNDS.windowMs, i));
    expect(windowsOf(all.slice(0, -1), BOUNDS)).toHaveLength(MAX_SHARDS);
    expect(() => windowsOf(all, BOUNDS)).toThrow(
      expect.objectContaining({ name: 'TooManyShards', message: expect.stringContaining('at most 1000 shards') }),
    );
  });

  test('a concurrency cap over several windows', () => {
    const all = [0, 9_999, 10_000].map((due, i) => scheduled(due, i));
    expect(windowsOf(all.slice(0, 2), BOUNDS, { requests: 2, kept: false })).toHaveLength(1);
    expect(() => windowsOf(all, BOUNDS, { requests: 2, kept: false })).toThrow(
      expect.objectContaining({ name: 'CappedReplayTooLong' }),
    );
  });

  test('too many requests without a schedule', () => {
    const cutter = new WindowCutter({ ...BOUNDS, requests: 50_000 }, { requests: 1000, kept: true });
    for (let i = 0; i < 1_000_000; i++) cutter.add(Number.NaN, 1);
    expect(() => cutter.add(Number.NaN, 1)).toThrow(expect.objectContaining({ name: 'TooManyRequests' }));
    // A schedule is cut into windows before that.
    const scheduledCutter = new WindowCutter({ ...BOUNDS, requests: 50_000, perSecond: 1e9 });
    for (let i = 0; i < 1_000_001; i++) scheduledCutter.add(1, 1);
    expect(scheduledCutter.windows().map(({ requests }) => requests)).toEqual([1_000_000, 1]);
  });

  test('too many requests for the concurrency', () => {
    const all = Array.from({ length: 101 }, (_, i) => scheduled(Number.NaN, i));
    expect(windowsOf(all.slice(0, 100), BOUNDS, { requests: 2, kept: true })).toHaveLength(1);
    expect(() => windowsOf(all, BOUNDS, { requests: 2, kept: true })).toThrow(
      expect.objectContaining({ name: 'TooManyRequests', message: expect.stringContaining('100 requests of ') }),
    );
  });
});

test('rejects a line that refers to an unknown file', () => {
  expect(() => readSchedule('{"f":0,"l":1,"s":0,"b":1,"c":0,"n":1}\n', 's3://w/k')).toThrow(
    expect.objectContaining({ name: 'InvalidSchedule', message: expect.stringContaining('s3://w/k, line 1') }),
  );
});
