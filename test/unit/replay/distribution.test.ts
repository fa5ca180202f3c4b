/** Histograms and the statistics computed from them. */
import fc from 'fast-check';
import { Distribution } from '../../../src/replay/measure/distribution.ts';

const value = fc.oneof(fc.nat(5000), fc.integer({ min: 0, max: 2 ** 31 }), fc.maxSafeNat());

/** Returns the percentile of the sorted values themselves, as numpy computes it. */
const exact = (values: number[], percent: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const place = ((sorted.length - 1) * percent) / 100;
  const [low = 0, high = low] = sorted.slice(Math.floor(place), Math.floor(place) + 2);
  return low + (place - Math.floor(place)) * (high - low);
};

describe('a distribution', () => {
  const of = (values: number[]): Distribution => {
    const distribution = new Distribution(1000);
    for (const one of values) distribution.add(one);
    return distribution;
  };
  const latency = fc.double({ min: 0, max: 1e6, noNaN: true });

  test('is accurate to three digits', () => {
    fc.assert(
      fc.property(fc.array(value, { minLength: 1 }), fc.integer({ min: 1, max: 100 }), (values, percent) => {
        const distribution = new Distribution(1);
        for (const one of values) distribution.add(one);
        const truth = exact(values, percent);
        expect(Math.abs(distribution.percentile(percent) - truth)).toBeLessThanOrEqual(Math.max(0.5, truth / 1000));
      }),
    );
  });

  test('merges parts that were stored as JSON into the distribution of all values', () => {
    fc.assert(
      fc.property(fc.array(latency, { minLength: 1 }), fc.array(latency, { minLength: 1 }), (a, b) => {
        const merged = of(a);
        merged.merge(JSON.parse(JSON.stringify(of(b))));
        const whole = of([...a, ...b]).summary();
        const summary = merged.summary();
        for (const key of ['p1', 'p50', 'p99', 'min', 'max', 'count'] as const)
          expect(summary?.[key]).toBe(whole?.[key]);
        for (const key of ['avg', 'std', 'sum'] as const)
          expect(summary?.[key]).toBeCloseTo(whole?.[key] ?? Number.NaN, 3);
      }),
    );
  });

  // Expected: numpy.percentile, which AIPerf uses.
  test.each([
    [[100, 1000], 50, 550],
    [[1, 2, 3, 4, 1000], 95, 800.8],
    [[1, 2, 3, 4, 1000], 99, 960.16],
    [[7], 1, 7],
  ])('computes the same percentile as AIPerf: %j, p%i', (values, percent, expected) => {
    expect(Math.abs(of(values).percentile(percent) - expected)).toBeLessThanOrEqual(expected / 1000);
  });

  test('has an exact mean, deviation, minimum and maximum', () => {
    const summary = of([10, 20, 30, 40]).summary();
    expect(summary).toMatchObject({ avg: 25, min: 10, max: 40, count: 4, sum: 100 });
    expect(summary?.std).toBeCloseTo(Math.sqrt(125), 10);
  });

  test('has no summary while it is empty', () => {
    expect(of([]).summary()).toBeUndefined();
  });

  test('puts every value into a chart bucket', () => {
    fc.assert(
      fc.property(fc.array(latency, { minLength: 1 }), fc.integer({ min: 1, max: 60 }), (values, most) => {
        const buckets = of(values).buckets(most);
        expect(buckets.reduce((sum, [, , count]) => sum + count, 0)).toBe(values.length);
        expect(buckets.length).toBeLessThanOrEqual(most);
      }),
    );
  });
});
