/** The differences of two runs, for the tables of a comparison. */

import { Random } from '../../../src/core/values/random.ts';
import { metricDifferences, shareDifference } from '../../../src/replay/compare/differences.ts';

const differences = (before: Float64Array, after: Float64Array) => metricDifferences({ before, after });

describe('differences of two runs', () => {
  test('a constant difference of all pairs is significant', () => {
    const random = new Random(5);
    const before = Float64Array.from({ length: 200 }, () => 50 + 100 * random.next());
    const after = before.map((value) => value + 2);
    const [difference, low, high] = [2, 2, 2].map((value) => expect.closeTo(value));
    expect(differences(before, after)?.mean).toMatchObject({ difference, low, high, significant: true });
  });

  test('quantiles are values of the list', () => {
    const values = Float64Array.from({ length: 100 }, (_, i) => i + 1);
    const found = differences(values, values);
    expect(found).toMatchObject({ p50: { before: 50 }, p90: { before: 90 }, p99: { before: 99 } });
    expect(found?.mean).toMatchObject({ before: 50.5, difference: 0, significant: false });
    expect(differences(new Float64Array(), new Float64Array())).toBeUndefined();
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
