/** Whether a share has risen, against exact values: the hypergeometric distribution's, as scipy and R have them. */
import {
  chanceOfRise,
  changePoint,
  factorOf,
  neighbours,
  smallestRiseFound,
} from '../../../../src/core/statistics/changed-share.ts';
import { betaBinomialTail, betaQuantile } from '../../../../src/core/statistics/distributions.ts';

const chance = (failedBefore: number, before: number, failedAfter: number, after: number): number =>
  chanceOfRise({ share: failedBefore / before, of: before }, { share: failedAfter / after, of: after });

const choose = (n: number, k: number): number => (k === 0 ? 1 : (choose(n - 1, k - 1) * n) / k);
/** Fisher's exact test by its definition. */
function fisher(failedBefore: number, before: number, failedAfter: number, after: number): number {
  const failed = failedBefore + failedAfter;
  let sum = 0;
  for (let k = failedAfter; k <= Math.min(failed, after); k += 1) sum += choose(after, k) * choose(before, failed - k);
  return sum / choose(before + after, failed);
}

test.each([
  [0, 100, 3, 3, 1 / choose(103, 3)],
  [0, 1000, 13, 1000, 0.000117372387],
  [50, 1000, 12, 100, fisher(50, 1000, 12, 100)],
  [2, 40, 9, 30, fisher(2, 40, 9, 30)],
  [1, 5, 5, 6, fisher(1, 5, 5, 6)],
])('%i of %i, then %i of %i', (failedBefore, before, failedAfter, after, exact) => {
  expect(chance(failedBefore, before, failedAfter, after) / exact).toBeCloseTo(1, 6);
});

test('a share that has not risen, and one of nothing, have no small chance', () => {
  expect([chance(5, 100, 5, 100), chance(9, 100, 1, 100), chance(0, 0, 3, 3), chance(3, 100, 0, 0)]).toEqual([
    1, 1, 1, 1,
  ]);
});

test('the tail of a beta-binomial distribution', () => {
  // With both shapes 1, each of the n + 1 numbers has the same chance.
  for (const x of [1, 3, 10]) expect(betaBinomialTail(x, 10, 1, 1)).toBeCloseTo((11 - x) / 11, 12);
  expect([betaBinomialTail(0, 10, 2, 3), betaBinomialTail(11, 10, 2, 3)]).toEqual([1, 0]);
  // Both tails together are 1, also of numbers that are not whole.
  expect(betaBinomialTail(4, 10, 2, 3) + betaBinomialTail(7, 10, 3, 2)).toBeCloseTo(1, 12);
  expect(betaBinomialTail(2.5, 7.5, 1.5, 20)).toBeGreaterThan(betaBinomialTail(3, 7.5, 1.5, 20));
});

test('the smallest rise that is found', () => {
  const before = { share: 0.05, of: 1000 };
  const found = smallestRiseFound(before, 200, 0.001);
  // A rise of that size is found with 95%, and so is not one much smaller: the exact power, by the binomial distribution.
  const power = (share: number): number => {
    let [all, term] = [0, (1 - share) ** 200];
    for (let k = 0; k <= 200; k += 1) {
      if (chanceOfRise(before, { share: k / 200, of: 200 }) <= 0.001) all += term;
      term *= ((200 - k) / (k + 1)) * (share / (1 - share));
    }
    return all;
  };
  expect(power(0.05 + found)).toBeGreaterThan(0.95);
  expect(power(0.05 + 0.7 * found)).toBeLessThan(0.95);
  expect(smallestRiseFound(before, 2000, 0.001)).toBeLessThan(found);
  expect([smallestRiseFound(before, 0, 0.001), smallestRiseFound({ share: 0, of: 0 }, 100, 0.001)]).toEqual([1, 1]);
  // It cannot be larger than what passes.
  expect(smallestRiseFound({ share: 1, of: 60 }, 100, 0.001)).toBeCloseTo(1 - betaQuantile(0.05, 60, 1), 12);
  expect(smallestRiseFound({ share: 0.9, of: 1000 }, 5, 0.001)).toBeLessThan(0.13);
});

const hours = (shares: readonly number[], cases = 20) => shares.map((failing, n) => ({ hourMs: n, cases, failing }));

test('neighbouring hours that differ as independent cases do have a factor of 1, and whole hours their size', () => {
  const halves = Array.from({ length: 400 }, (_, n) => (n % 3 === 0 ? 1 : 0));
  expect(factorOf(neighbours(hours(halves)))).toBeCloseTo(((2 / 3) * 20) / 2 / ((1 / 3) * (2 / 3)), 0);
  expect(factorOf(neighbours(hours(halves, 1)))).toBeCloseTo(1.5, 1);
  expect(factorOf({ pairs: 300, squares: 200 })).toBe(1);
  expect(neighbours(hours([0, 0, 0]))).toEqual({ pairs: 0, failing: 0, squares: 0 });
  expect(neighbours(hours([0, 0, 0.5, 0]))).toMatchObject({ pairs: 3, failing: 2 });
});

test('the hour in which a share rose', () => {
  const rise = hours([...Array.from({ length: 50 }, () => 0.05), ...Array.from({ length: 5 }, () => 0.4)]);
  expect(changePoint(rise, 1)).toEqual({ at: 50, from: 50, to: 50 });
  const wide = changePoint(rise, 10);
  expect(wide?.at).toBe(50);
  expect([(wide?.from ?? 50) < 50, (wide?.to ?? 0) > 50]).toEqual([true, true]);
  expect(changePoint(hours([0.4, 0.05, 0.05]), 1)).toBeUndefined();
});
