/** The differences of two runs, for the tables of a comparison. */

import { Random } from '../../../src/core/values/random.ts';
import { metricDifferences, shareDifference } from '../../../src/replay/compare/differences.ts';

const differences = (before: Float64Array, after: Float64Array) => metricDifferences({ before, after });

describe('differences of two runs', () => {
  const normal = (random: Random, mean: number, deviation: number): number =>
    mean + deviation * Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());

  test('the 95% interval contains the true difference about 95 times in 100', () => {
    let held = 0;
    const runs = 100;
    for (let run = 0; run < runs; run++) {
      const random = new Random(1000 + run);
      const before = Float64Array.from({ length: 120 }, () => normal(random, 100, 20));
      const after = before.map((value) => value + normal(random, 5, 10));
      const found = differences(before, after)?.mean;
      if (found && found.low <= 5 && found.high >= 5) held++;
    }
    expect(held).toBeGreaterThanOrEqual(88);
    expect(held).toBeLessThan(100);
  });

  test('a constant difference of all pairs is significant', () => {
    const random = new Random(5);
    const before = Float64Array.from({ length: 200 }, () => 50 + 100 * random.next());
    const after = before.map((value) => value + 2);
    const [difference, low, high] = [2, 2, 2].map((value) => expect.closeTo(value));
    expect(differences(before, after)?.mean).toMatchObject({ difference, low, high, significant: true });
  });

  test('equal runs rarely differ significantly, for each statistic with enough values', () => {
    const sizes = { 10: ['p50'], 50: ['p90'], 100: ['mean', 'p95'], 500: ['p99'] } as const;
    for (const [size, statistics] of Object.entries(sizes)) {
      const runs = 80;
      const different = new Map<string, number>();
      let tooFew = 0;
      for (let run = 0; run < runs; run++) {
        const random = new Random(run * 7919 + 11);
        const values = () => Float64Array.from({ length: Number(size) }, () => Math.exp(normal(random, 0, 0.5)));
        const found = differences(values(), values());
        for (const one of statistics) {
          // The largest of a hundred values may have no bound.
          if (found?.[one].tooFew) tooFew += 1;
          if (found?.[one].significant) different.set(one, (different.get(one) ?? 0) + 1);
        }
      }
      expect(tooFew / runs).toBeLessThanOrEqual(0.05);
      for (const one of statistics)
        expect([size, one, (different.get(one) ?? 0) / runs <= 0.1]).toEqual([size, one, true]);
    }
  });

  test('quantiles are values of the list', () => {
    const values = Float64Array.from({ length: 100 }, (_, i) => i + 1);
    const found = differences(values, values);
    expect(found).toMatchObject({ p50: { before: 50 }, p90: { before: 90 }, p99: { before: 99 } });
    expect(found?.mean).toMatchObject({ before: 50.5, difference: 0, significant: false });
    expect(differences(new Float64Array(), new Float64Array())).toBeUndefined();
  });

  test('finds a small difference of many values', () => {
    const before = Float64Array.from({ length: 50_000 }, (_, i) => i % 100);
    const after = before.map((value) => value + 1);
    expect(differences(before, after)?.p50).toMatchObject({ difference: 1, significant: true });
  });

  test('the difference of two shares has an interval around it', () => {
    const found = shareDifference([48, 80], [56, 70]);
    expect(found).toMatchObject({ before: 0.6, after: 0.8, significant: true });
    expect(found.difference).toBeCloseTo(0.2, 6);
    // Newcombe's hybrid interval is 0.0524 to 0.3339 (1998, table II, method 10).
    expect(found.low).toBeCloseTo(0.0524, 2);
    expect(found.high).toBeCloseTo(0.3339, 1);
    expect(shareDifference([0, 100], [0, 100])).toMatchObject({ difference: 0, relative: null, significant: false });
  });
});
