/** Tests of means of samples, from their sums. */

import { type SampledNumbers, sampledMean } from '../../../../src/core/statistics/sampled-mean.ts';
import { Random } from '../../../../src/core/values/random.ts';

const SCALE = { min: 1, max: 5 };
const sumsOf = (numbers: readonly number[], weight = numbers.length): SampledNumbers => ({
  captures: weight,
  judged: numbers.length,
  sum: numbers.reduce((sum, x) => sum + x, 0),
  squares: numbers.reduce((sum, x) => sum + x * x, 0),
});

test.each([
  ['one number', [4], SCALE],
  ['few without a scale', Array.from({ length: 199 }, (_, n) => n), undefined],
  ['equal ones without a scale', Array.from({ length: 500 }, () => 7), undefined],
])('%s has no interval', (_, numbers, scale) => {
  expect(sampledMean([sumsOf(numbers)], scale)).toMatchObject({ low: null, high: null });
});

test('has Student’s interval, with room for scores at the ends of the scale', () => {
  // t of 199 degrees is 1.971957; of 0 and 10 half each, the standard error is 5/√199.
  const numbers = Array.from({ length: 200 }, (_, n) => (n % 2) * 10);
  const half = (1.971957 * 5) / Math.sqrt(199);
  const plain = sampledMean([sumsOf(numbers)]);
  expect([plain.low, plain.high].map((end) => Number(end?.toFixed(5)))).toEqual([
    Number((5 - half).toFixed(5)),
    Number((5 + half).toFixed(5)),
  ]);
  expect(sampledMean([sumsOf(numbers)], { min: 0, max: 20 })).toMatchObject({
    low: expect.closeTo(5 - half - 0.015 * 5, 5),
    high: expect.closeTo(5 + half + 0.015 * 15, 5),
  });
  // Two equal scores may be two of any: nothing is excluded.
  expect(sampledMean([sumsOf([4, 4])], SCALE)).toEqual({ value: 4, low: 1, high: 5 });
});

test('weighs the strata by their captures', () => {
  const parts = [sumsOf([1, 5], 20), sumsOf([5], 80)];
  expect(sampledMean(parts, SCALE)).toMatchObject({ value: 0.2 * 3 + 0.8 * 5, high: 5 });
  expect(sampledMean(parts)).toMatchObject({ low: null });
});

const TRUE_MEAN = 4.6;
test.each([
  ['normal', (random: Random) => TRUE_MEAN + 0.1 * random.normal()],
  ['skewed', (random: Random) => (random.next() < 0.1 ? 1 : 5)],
])('contains the mean of %s scores in 93 of 100 samples or more', (_, draw) => {
  const random = new Random(11);
  for (const n of [2, 3, 5, 10, 30, 50, 200]) {
    let covered = 0;
    for (let run = 0; run < 1000; run++) {
      const { low, high } = sampledMean([sumsOf(Array.from({ length: n }, () => draw(random)))], SCALE);
      covered += low !== null && high !== null && low <= TRUE_MEAN && TRUE_MEAN <= high ? 1 : 0;
    }
    expect([n, covered >= 930]).toEqual([n, true]);
  }
});

test('strata of one chance have about the interval of their sum, and captures without scores may have any', () => {
  const random = new Random(5);
  const hours = Array.from({ length: 24 }, () => Array.from({ length: 42 }, () => (random.next() < 0.1 ? 1 : 5)));
  const ends = ({ low, high }: ReturnType<typeof sampledMean>) => [low ?? 0, high ?? 0] as const;
  const [low, high] = ends(
    sampledMean(
      hours.map((hour) => sumsOf(hour, 417)),
      SCALE,
    ),
  );
  const [lowOfAll, highOfAll] = ends(sampledMean([sumsOf(hours.flat(), 10_008)], SCALE));
  expect(Math.abs(low - lowOfAll) + Math.abs(high - highOfAll)).toBeLessThan(0.02);
  const [least, most] = ends(sampledMean([sumsOf(hours.flat(), 10_008)], SCALE, 10_008));
  expect([least, most]).toEqual([expect.closeTo((lowOfAll + 1) / 2, 9), expect.closeTo((highOfAll + 5) / 2, 9)]);
  expect(sampledMean([sumsOf(hours.flat())], undefined, 100)).toMatchObject({ low: null, high: null });
});
