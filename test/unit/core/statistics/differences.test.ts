/** Differences of quantiles and means of two samples, with their bounds. Figures are from NumPy and SciPy 1.17. */
import fc from 'fast-check';
import type { Bounds } from '../../../../src/core/statistics/bounds.ts';
import { normalQuantile } from '../../../../src/core/statistics/distributions.ts';
import { NEEDED_FOR_MEAN, meanDifference as sizedMean } from '../../../../src/core/statistics/mean-difference.ts';
import {
  neededForQuantile,
  QuantileDifferences,
  quantileAtScore,
} from '../../../../src/core/statistics/quantile-difference.ts';
import { Random } from '../../../../src/core/values/random.ts';

const meanDifference = (...sample: Parameters<typeof sizedMean>) => sizedMean(...sample)();
const quantileDifference = (before: Float64Array, after: Float64Array, q: number, relative: boolean) =>
  new QuantileDifferences(before, after).bounds(q, relative)();

/** Whole numbers from 1. */
const upTo = (n: number): Float64Array => Float64Array.from({ length: n }, (_, i) => i + 1);
/** The same in a random order. */
function mixed(n: number): Float64Array {
  const random = new Random(n);
  const keys = Float64Array.from({ length: n + 1 }, () => random.next());
  return upTo(n).sort((a, b) => (keys[a] ?? 0) - (keys[b] ?? 0));
}
const BEFORE = upTo(120).map((i) => 100 + ((i * 37) % 101) + i / 1000);
const AFTER = upTo(120).map((i) => 110 + ((i * 53) % 97) + i / 1000 + (i % 10 === 0 ? 150 : 0));

const ends = (bounds: Bounds | undefined, alpha: number): number[] =>
  bounds ? [bounds.estimate, bounds.lower(alpha), bounds.upper(alpha)] : [];
function expectClose(found: readonly number[], expected: readonly number[]): void {
  expect(found).toHaveLength(expected.length);
  for (const [i, value] of expected.entries()) expect(found[i]).toBeCloseTo(value, 8);
}

describe('order statistics', () => {
  test.each([
    // P(at least `rank` of n are below the quantile): scipy.stats.binom.sf(rank − 1, n, q).
    [20, 0.5, 15, 0.020694732666015625],
    [100, 0.95, 99, 0.037081209327355064],
    [100, 0.95, 100, 0.005920529220334001],
    [1_000_000, 0.95, 950_358, 0.05034778907519085],
  ])('of %d values, the bound of quantile %d is the value of rank %d at the level %d', (n, q, rank, alpha) => {
    expect(Math.abs(quantileAtScore(upTo(n), q)(-normalQuantile(alpha)) - rank)).toBeLessThan(1e-6);
  });

  test('no value is a bound at a level that even the largest misses', () => {
    // 0.95 ** 100 = 0.0059.
    expect(quantileAtScore(upTo(100), 0.95)(-normalQuantile(0.0058))).toBe(Infinity);
    expect(quantileAtScore(upTo(10), 0.5)(normalQuantile(0.0009))).toBe(-Infinity);
  });
});

describe('quantiles', () => {
  test.each<[string, number, boolean, number[]]>([
    ['p50', 0.5, false, [12.986, 1.46639097955358, 22.520609020446415]],
    ['p90', 0.9, false, [16.059, 9.42258827201556, 110.80792685605218]],
    ['relative', 0.95, true, [0.5635204199324375, 0.4346687363325106, 0.7165945205532283]],
  ])('%s', (_, q, relative, expected) => {
    expectClose(ends(quantileDifference(BEFORE, AFTER, q, relative), 0.05), expected);
  });

  test.each([0.5, 0.9, 0.95, 0.99])('need five values beyond %d', (q) => {
    const needed = Math.round(5 / (1 - q));
    expect(neededForQuantile(q)).toBe(needed);
    expect(quantileDifference(upTo(needed - 1), upTo(needed - 1), q, false)).toBeUndefined();
    expect(quantileDifference(mixed(needed), mixed(needed), q, false)?.upper(0.05)).toBeLessThan(Infinity);
  });

  test('bounds are infinite where no value of the sample reaches', () => {
    const turned = mixed(100).reverse();
    const found = quantileDifference(mixed(100), turned, 0.95, false);
    expect(ends(found, 0.001)).toEqual([0, -Infinity, Infinity]);
    const share = quantileDifference(mixed(100), turned, 0.95, true);
    expect(ends(share, 0.001)).toEqual([0, -1, Infinity]);
    expect(share?.upper(0.01)).toBeLessThan(Infinity);
  });

  test('a shift of all pairs is known exactly', () => {
    const after = BEFORE.map((value) => value + 3);
    expectClose(ends(quantileDifference(BEFORE, after, 0.9, false), 0.01), [3, 3, 3]);
  });

  test('equal values have no interval', () => {
    const five = new Float64Array(20).fill(5);
    expect(ends(quantileDifference(five, five, 0.5, false), 0.001)).toEqual([0, 0, 0]);
  });

  test('from 0, a share is infinite', () => {
    const zeros = new Float64Array(40);
    const share = (before: Float64Array, after: Float64Array) =>
      ends(quantileDifference(before, after, 0.5, true), 0.05);
    expect(share(zeros, upTo(40))).toEqual([Infinity, Infinity, Infinity]);
    expect(share(zeros, zeros)).toEqual([0, 0, 0]);
    expect(share(upTo(40), zeros)).toEqual([-1, -1, -1]);
  });
});

describe('means', () => {
  // With SciPy's own t, root finding for Hall's transformation, and for Fieller's ratios.
  const whole = (values: Float64Array): Float64Array => values.map(Math.floor);
  test.each<[boolean, number, number[]]>([
    [false, 0.05, [22.366666666666674, 13.84741049584124, 31.92272927784733]],
    [false, 0.001, [22.366666666666674, 6.126683174673243, 42.65293340326399]],
    [true, 0.05, [0.14894561598224199, 0.09124118395910386, 0.21445255885053216]],
  ])('relative: %j, at the level %d', (relative, alpha, expected) => {
    expectClose(ends(meanDifference(whole(BEFORE), whole(AFTER), relative), alpha), expected);
  });

  test('too few values have no bound', () => {
    const [few, enough] = [upTo(NEEDED_FOR_MEAN - 1), upTo(NEEDED_FOR_MEAN)];
    expect(meanDifference(few, few, false)).toBeUndefined();
    expect(meanDifference(enough, enough, false)?.upper(0.05)).toBe(0);
  });

  test('a share of a mean that may be 0 has no bound', () => {
    const rare = new Float64Array(100);
    rare[7] = 1;
    const found = meanDifference(rare, upTo(100), true);
    expect(found?.upper(0.05)).toBe(Infinity);
    const zero = meanDifference(new Float64Array(100), upTo(100), true);
    expect(ends(zero, 0.05)).toEqual([Infinity, -Infinity, Infinity]);
  });
});

/** A function of two samples that gives a difference. */
const METHODS: [string, (before: Float64Array, after: Float64Array, relative: boolean) => Bounds | undefined][] = [
  ['p50', (a, b, relative) => quantileDifference(a, b, 0.5, relative)],
  ['p95', (a, b, relative) => quantileDifference(a, b, 0.95, relative)],
  ['mean', (a, b, relative) => meanDifference(a, b, relative)],
];

describe.each(METHODS)('%s', (_, method) => {
  const value = fc.double({ min: 1, max: 1000, noNaN: true });
  const samples = fc.array(fc.tuple(value, value), { minLength: 100, maxLength: 130 }).map((pairs) => ({
    pairs,
    before: Float64Array.from(pairs, ([a]) => a),
    after: Float64Array.from(pairs, ([, b]) => b),
  }));

  test('the unit, the direction and whether the sequence is reversed do not matter, and levels nest', () => {
    fc.assert(
      fc.property(samples, ({ pairs, before, after }) => {
        const found = ends(method(before, after, false), 0.05);
        const [estimate = 0, low = 0, high = 0] = found;
        expect(low).toBeLessThanOrEqual(high);
        const close = (other: readonly number[], expected: readonly number[]): void => {
          for (const [i, one] of expected.entries()) expect(other[i]).toBeCloseTo(one, 5);
        };
        const scaled = [before, after].map((values) => values.map((one) => one / 8)) as [Float64Array, Float64Array];
        close(ends(method(...scaled, false), 0.05), [estimate / 8, low / 8, high / 8]);
        close(ends(method(...scaled, true), 0.05), ends(method(before, after, true), 0.05));
        close(ends(method(after, before, false), 0.05), [-estimate, -high, -low]);
        const turned = [...pairs].reverse();
        const mirrored = method(
          Float64Array.from(turned, ([a]) => a),
          Float64Array.from(turned, ([, b]) => b),
          false,
        );
        close(ends(mirrored, 0.05), found);
        // The edge of a region is computed at a few of its points, so a wider one may end a little earlier.
        const slack = Number.isFinite(high - low) ? (high - low) / 100 : 0;
        const [, lower = 0, upper = 0] = ends(method(before, after, false), 0.01);
        expect(lower).toBeLessThanOrEqual(low + slack);
        expect(upper).toBeGreaterThanOrEqual(high - slack);
      }),
      { numRuns: 30 },
    );
  });
});

describe('a bound at 5% is on the wrong side of the truth in about 5% of the samples', () => {
  const RUNS = 500;
  /** 5% and four standard errors. */
  const MOST = RUNS * (0.05 + 4 * Math.sqrt((0.05 * 0.95) / RUNS));
  /** Twice as slow from the 90th percentile on, so that p95 and p99 double and p50 stays. */
  const slowTail = (z: number): number => Math.exp(0.5 * z) * (z > 1.2816 ? 2 : 1);
  const same = (z: number): number => Math.exp(0.5 * z);

  test.each<[string, number, (a: Float64Array, b: Float64Array) => Bounds | undefined, (z: number) => number, number]>([
    ['p50', 20, (a, b) => quantileDifference(a, b, 0.5, true), slowTail, 0],
    ['p95', 100, (a, b) => quantileDifference(a, b, 0.95, true), slowTail, 1],
    ['p95', 300, (a, b) => quantileDifference(a, b, 0.95, true), same, 0],
    ['p99', 500, (a, b) => quantileDifference(a, b, 0.99, true), slowTail, 1],
    ['mean', 100, (a, b) => meanDifference(a, b, true), same, 0],
  ])('%s of %d pairs', (_, n, method, latency, truth) => {
    const random = new Random(n);
    let [tooLow, tooHigh, finite] = [0, 0, 0];
    for (let run = 0; run < RUNS; run++) {
      const before = new Float64Array(n);
      const after = new Float64Array(n);
      for (let i = 0; i < n; i++) {
        const z = random.normal();
        before[i] = same(z);
        after[i] = latency(0.6 * z + 0.8 * random.normal());
      }
      const [, low = Number.NaN, high = Number.NaN] = ends(method(before, after), 0.05);
      if (high < truth) tooLow++;
      if (low > truth) tooHigh++;
      if (Number.isFinite(low) && Number.isFinite(high)) finite++;
    }
    expect(tooLow).toBeLessThan(MOST);
    expect(tooHigh).toBeLessThan(MOST);
    // A bound that is never wrong would say nothing.
    expect(tooLow + tooHigh).toBeGreaterThan(RUNS * 0.01);
    // The order of some independent samples looks as if they told less than they do: p99 of 500 has none to spare.
    expect(finite).toBeGreaterThanOrEqual(RUNS * 0.9);
  });
});
