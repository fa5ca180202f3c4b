/** The due times of requests. */
import fc from 'fast-check';
import { DEFAULT_OPTIONS, type ReplayOptions } from '../../../src/replay/options.ts';
import { restOf, schedule } from '../../../src/replay/schedule/timing.ts';
import type { IndexEntry } from '../../../src/replay/source/types.ts';

const EPOCH = Date.parse('2026-11-20T10:00:00Z');

/** Captures at these times, in milliseconds after the first. */
function source(offsets: number[], batch = 3) {
  const of = { file: 0, start: 0, length: 1 };
  const entries = offsets.map((offset, i): IndexEntry => ({ ...of, timeMs: EPOCH + offset, line: i + 1 }));
  return {
    total: entries.length,
    firstMs: EPOCH + (offsets[0] ?? 0),
    *batches() {
      for (let i = 0; i < entries.length; i += batch) yield entries.slice(i, i + batch);
    },
  };
}

function dues(offsets: number[], options: Partial<ReplayOptions> = {}): number[] {
  const all: number[] = [];
  for (const batch of schedule(source(offsets), { ...DEFAULT_OPTIONS, ...options })) {
    all.push(...batch.map(({ dueMs }) => dueMs));
  }
  return all;
}

describe('a fixed schedule', () => {
  test('follows the captured times', () => {
    expect(dues([0, 0, 1000, 5500])).toEqual([0, 0, 1000, 5500]);
  });

  // As in AIPerf, the window is inclusive and the schedule starts with it.
  test.each([
    [{ fixedScheduleStartOffset: 1000 }, [0, 1000, 4000]],
    [{ fixedScheduleEndOffset: 2000 }, [0, 1000, 2000]],
    [{ fixedScheduleStartOffset: 500, fixedScheduleEndOffset: 2000 }, [500, 1500]],
    [{ fixedScheduleAutoOffset: true, fixedScheduleEndOffset: 1000 }, [0, 1000]],
    [{ fixedScheduleStartOffset: 6000 }, []],
  ])('is limited to the window %j', (timing, expected) => {
    expect(dues([0, 1000, 2000, 5000], timing)).toEqual(expected);
  });

  test('can be faster or slower than the captures', () => {
    expect(dues([0, 1000, 4000], { speedup: 2 })).toEqual([0, 500, 2000]);
    expect(dues([0, 1000, 4000], { speedup: 0.5 })).toEqual([0, 2000, 8000]);
  });

  test('spreads a second evenly', () => {
    expect(dues([0, 0, 0, 0, 1000, 2000, 2000], { spreadSameSecond: 'even' })).toEqual([
      0, 250, 500, 750, 1000, 2000, 2500,
    ]);
  });

  test('keeps a time with a fraction, and spreads earlier requests before it', () => {
    expect(dues([0, 0, 500, 500], { spreadSameSecond: 'even' })).toEqual([0, 250, 500, 500]);
  });

  test('spreads randomly within the second, in ascending order, and reproducibly', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 40 }),
        fc.nat(1000),
        (seconds, seed) => {
          const offsets = seconds.sort((a, b) => a - b).map((second) => second * 1000);
          const zero = offsets[0] ?? 0;
          const found = dues(offsets, { spreadSameSecond: 'poisson', randomSeed: seed });
          for (const [i, due] of found.entries()) {
            const second = (offsets[i] ?? 0) - zero;
            expect(due).toBeGreaterThanOrEqual(second);
            expect(due).toBeLessThan(second + 1000);
            if (i > 0) expect(due).toBeGreaterThanOrEqual(found[i - 1] ?? 0);
          }
          expect(dues(offsets, { spreadSameSecond: 'poisson', randomSeed: seed })).toEqual(found);
        },
      ),
    );
  });

  test('starts the next pass after the last second', () => {
    expect(dues([0, 2000], { repeat: 3 })).toEqual([0, 2000, 3000, 5000, 6000, 8000]);
    expect(dues([0, 2000], { speedup: 2, repeat: 2 })).toEqual([0, 1000, 1500, 2500]);
  });

  test('ends after the requested number of requests', () => {
    expect(dues([0, 1000, 2000], { requestCount: 2 })).toEqual([0, 1000]);
    expect(dues([0, 1000], { repeat: 5, requestCount: 3 })).toEqual([0, 1000, 2000]);
  });
});

describe('without a schedule', () => {
  test('sends at a constant rate', () => {
    expect(dues([0, 0, 0], { requestRate: 4, repeat: 2 })).toEqual([0, 250, 500, 750, 1000, 1250]);
  });

  test('assigns no times with a constant concurrency', () => {
    const found = dues([0, 5000], { concurrency: 1, repeat: 2 });
    expect(found).toEqual(Array(4).fill(Number.NaN));
  });
});

describe('a limited number of requests', () => {
  /** Consumes the schedule like a sender that cannot send the `bad` lines. */
  function sent(bad: readonly number[], options: Partial<ReplayOptions>): string[] {
    const found: string[] = [];
    let skipped = 0;
    const all = { ...DEFAULT_OPTIONS, ...options };
    for (const batch of schedule(source([0, 0, 0, 0, 1000, 1000, 2000]), all, () => skipped)) {
      for (const { entry, pass } of batch) {
        if (bad.includes(entry.line)) skipped++;
        else found.push(`${entry.line}${'*'.repeat(pass)}`);
      }
    }
    return found;
  }

  test.each<[number, number[], number, string[]]>([
    [3, [], 1, ['1', '2', '3']],
    [3, [1, 2], 1, ['3', '4', '5']],
    [3, [2, 4, 6], 1, ['1', '3', '5']],
    [3, [1, 2, 3, 4, 5], 1, ['6', '7']],
    [3, [1, 2, 3, 4, 5], 3, ['6', '7', '6*']],
    [9, [7], 2, ['1', '2', '3', '4', '5', '6', '1*', '2*', '3*']],
    [2, [1, 2, 3, 4, 5, 6, 7], 50, []],
    [100, [3], 1, ['1', '2', '4', '5', '6', '7']],
  ])('sends %j requests if lines %j cannot be sent, in %j passes', (count, bad, repeat, expected) => {
    for (const concurrency of [undefined, 1]) {
      expect(sent(bad, { concurrency, requestCount: count, repeat })).toEqual(expected);
    }
  });
});

test.each([
  [{}, 4, 0, { timeMs: 1000, pass: 0, again: 1 }],
  [{}, 3, 1, { timeMs: 1000, pass: 0, again: 1 }],
  [{ repeat: 2 }, 12, 0, { timeMs: 0, pass: 1, again: 2 }],
  [{ concurrency: 2 }, 7, 0, { timeMs: 2000, pass: 0, again: 1 }],
  [{ requestCount: 6 }, 5, 0, { timeMs: 1000, pass: 0, again: 2 }],
  [{ fixedScheduleStartOffset: 1000 }, 1, 0, { timeMs: 1000, pass: 0, again: 1 }],
  [{}, 10, 0, undefined],
])('with %j, the rest after %d sent and %d skipped requests begins there', (given, sent, skipped, rest) => {
  const place = { file: 0, line: 1, start: 0, length: 1 };
  const entries = Array.from({ length: 10 }, (_, i) => ({ timeMs: 1000 * Math.floor(i / 3), ...place }));
  const source = { total: 10, firstMs: 0, batches: () => [entries.slice(0, 5), entries.slice(5)] };
  expect(restOf(source, { ...DEFAULT_OPTIONS, ...given }, { sent, skipped })).toEqual(rest);
});
