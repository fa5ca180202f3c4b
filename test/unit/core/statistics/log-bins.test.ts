/** Numbers in bins of constant relative width. */
import {
  binOf,
  binsIn,
  boundBins,
  countOf,
  type LogBins,
  quantileOf,
} from '../../../../src/core/statistics/log-bins.ts';
import { Random } from '../../../../src/core/values/random.ts';

const binsOf = (numbers: readonly number[]): LogBins => {
  const bins: LogBins = {};
  for (const number of numbers) bins[binOf(number)] = (bins[binOf(number)] ?? 0) + 1;
  return bins;
};

test('what is read from a bin is at most 2% off, of either sign, and bins are in the order of their numbers', () => {
  for (let exponent = -6; exponent < 12; exponent += 0.0137) {
    for (const number of [10 ** exponent, -(10 ** exponent)]) {
      const [bin = { low: 0, high: 0, value: 0 }] = binsIn({ [binOf(number)]: 1 });
      expect(Math.abs(bin.value / number - 1)).toBeLessThan(0.0200001);
      expect(
        bin.low <= number * (1 + 1e-9 * Math.sign(number)) && number * (1 - 1e-9 * Math.sign(number)) <= bin.high,
      ).toBe(true);
    }
  }
  expect(binsIn(binsOf([5, -2, 0, 1e-9, -700])).map(({ count }) => count)).toEqual([1, 1, 2, 1]);
});

test('quantiles are those of the numbers, and numbers beyond a bounded number of bins leave the largest as they are', () => {
  const random = new Random(3);
  const numbers = Array.from({ length: 5_000 }, () => 10 ** (12 * random.next() - 5)).toSorted((a, b) => a - b);
  const bins = binsOf(numbers);
  for (const share of [0, 0.05, 0.5, 0.95, 1]) {
    const exact = numbers[Math.max(0, Math.ceil(share * numbers.length) - 1)] ?? 0;
    expect(Math.abs((quantileOf(bins, share) ?? 0) / exact - 1)).toBeLessThan(0.0200001);
  }
  expect(quantileOf({}, 0.5)).toBeUndefined();
  // The nearest rank: the 81st of 85, not the 80th.
  expect(quantileOf(binsOf([...Array.from({ length: 80 }, () => 1), 100, 100, 100, 100, 100]), 0.95)).toBeCloseTo(
    100,
    -1,
  );
  expect(Object.keys(bins).length).toBeGreaterThan(600);
  const median = quantileOf(bins, 0.5);
  boundBins(bins);
  expect([Object.keys(bins).length, countOf(bins), quantileOf(bins, 0.5)]).toEqual([512, 5_000, median]);
});
