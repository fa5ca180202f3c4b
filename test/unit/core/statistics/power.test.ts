/** Sizes have the power that they promise, from there on. */

import { binomialCdf, normalQuantile } from '../../../../src/core/statistics/distributions.ts';
import {
  LEVEL,
  likelyShares,
  POWER,
  shareSize,
  simulatedSize,
  zeroToleranceSize,
} from '../../../../src/core/statistics/power.ts';
import { shareBounds } from '../../../../src/core/statistics/share.ts';
import type { Random } from '../../../../src/core/values/random.ts';

/** The probability that the bounds of `size` cases are within the bound. */
function powerAt(size: number, share: number, bound: number): number {
  let hits = -1;
  while (shareBounds(hits + 1, size).upper(LEVEL) <= bound) hits++;
  return binomialCdf(hits, size, share);
}

test('the size of a share is the one that a search over all sizes finds', () => {
  // Found by trying every size with binomial probabilities summed up in Python.
  expect(
    [
      [0, 0.05],
      [0.01, 0.05],
      [0.02, 0.05],
      [0.03, 0.05],
      [0.01, 0.02],
    ].map(([share = 0, bound = 0]) => shareSize([share], bound)),
  ).toEqual([59, 124, 286, 694, 1091]);
});

test('one case less than the size has too little power, and no larger size has', () => {
  for (const [share, bound] of [
    [0.005, 0.02],
    [0.03, 0.06],
    [0.2, 0.3],
  ] as const) {
    const size = shareSize([share], bound) ?? 0;
    expect(powerAt(size - 1, share, bound)).toBeLessThan(POWER);
    for (let more = 0; more < 200; more++) expect(powerAt(size + more, share, bound)).toBeGreaterThanOrEqual(POWER);
  }
});

test('no size suffices for a share at or above the bound', () => {
  expect(shareSize([0.05], 0.05)).toBeUndefined();
  expect(shareSize([0.07], 0.05)).toBeUndefined();
});

test('what a small pilot leaves open makes the size larger, and a large pilot leaves little', () => {
  const exact = shareSize([0.02], 0.05) ?? 0;
  expect(shareSize(likelyShares(10, 500), 0.05)).toBeGreaterThan(1.15 * exact);
  expect(shareSize(likelyShares(10_000, 500_000), 0.05)).toBe(exact);
  expect(shareSize(likelyShares(4, 100), 0.05)).toBeUndefined();
});

/** The upper bound of the mean of standard normal values, whose deviation is known. */
const upperOfMean = (size: number, random: Random): number =>
  (random.normal() + normalQuantile(1 - LEVEL)) / Math.sqrt(size);

test('a simulated size is that of the normal formula where the estimator is normal, beyond the drawn sizes too', () => {
  const formula = (bound: number): number => ((normalQuantile(1 - LEVEL) + normalQuantile(POWER)) / bound) ** 2;
  for (const bound of [0.5, 0.1, 0.01]) {
    const size = simulatedSize(upperOfMean, bound, { start: 100, most: 1000 }) ?? 0;
    expect(size / formula(bound)).toBeGreaterThan(0.97);
    expect(size / formula(bound)).toBeLessThan(1.08);
  }
});

test('a simulated size respects the fewest cases that the bound needs, and has an end', () => {
  const needsHundred = (size: number, random: Random): number => (size < 100 ? Number.NaN : upperOfMean(size, random));
  expect(simulatedSize(needsHundred, 10, { start: 5, least: 100 })).toBe(100);
  expect(simulatedSize(upperOfMean, 0.0001, { start: 100, most: 1000 })).toBeUndefined();
});

test('a zero-tolerance rule needs three cases for each share of the tolerance', () => {
  expect([0.01, 0.001, 0.0003].map(zeroToleranceSize)).toEqual([300, 3000, 10_000]);
});
