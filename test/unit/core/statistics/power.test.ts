/** What sizes are made of: the hits and the bounds that most samples do not exceed. */

import { binomialCdf, normalQuantile } from '../../../../src/core/statistics/distributions.ts';
import { LEVEL, mostHits, POWER, smallestSize, withPower } from '../../../../src/core/statistics/power.ts';

test('the fewest hits that enough samples do not exceed', () => {
  for (const [of, share] of [
    [1, 0.5],
    [59, 0],
    [100, 0.02],
    [1000, 0.3],
    [20, 1],
  ] as const) {
    const hits = mostHits(of, share);
    expect(binomialCdf(hits, of, share)).toBeGreaterThanOrEqual(POWER);
    expect(hits === 0 || binomialCdf(hits - 1, of, share) < POWER).toBe(true);
  }
});

test('a bound with power is as many standard errors farther away as the estimate may be off', () => {
  expect(normalQuantile(withPower(LEVEL))).toBeCloseTo(normalQuantile(LEVEL) - normalQuantile(POWER), 9);
});

test('the smallest size is found by doubling and halving, and has an end', () => {
  expect(smallestSize(3, 1e6, (size) => size >= 777)).toBe(777);
  expect(smallestSize(3, 1e6, () => true)).toBe(3);
  expect(smallestSize(3, 1000, (size) => size >= 1001)).toBeUndefined();
});
