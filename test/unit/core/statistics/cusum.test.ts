import { designCusum, meanRunLength, nextSum } from '../../../../src/core/statistics/cusum.ts';
import { Random } from '../../../../src/core/values/random.ts';
import { runLengthQuantile } from '../../../helpers/run-length.ts';

test('the mean run length of a walk by single steps is that of the textbook', () => {
  // A walk that stays at 0 when it would fall below: h (h + 1) steps with a fair coin.
  for (const limit of [1, 2, 7, 40]) {
    expect(meanRunLength({ up: 1, down: 1, limit }, 0.5)).toBeCloseTo(limit * (limit + 1), 6);
    expect(meanRunLength({ up: 1, down: 1, limit }, 0.5, limit - 1)).toBeCloseTo(2 * limit, 6);
  }
  // A sum that never falls raises an alarm at the first failure.
  expect(meanRunLength({ up: 5, down: 1, limit: 5 }, 0.01)).toBeCloseTo(100, 8);
});

test('a design has no more false alarms than allowed, and with one less it would', () => {
  for (const [good, bad, least] of [
    [0.05, 0.15, 7_300_000],
    [0.001, 0.04, 50_000],
    [0.91, 0.95, 30_000],
    [0.5, 0.67, 1000],
  ] as const) {
    const cusum = designCusum(good, bad, least);
    expect(meanRunLength(cusum, good)).toBeGreaterThanOrEqual(least);
    expect(meanRunLength({ ...cusum, limit: cusum.limit - 1 }, good)).toBeLessThan(least);
  }
});

test('a walk takes as many cases as the equations say', () => {
  const cusum = designCusum(0.05, 0.15, 3000);
  const random = new Random(1);
  const lengths = Array.from({ length: 4000 }, () => {
    let cases = 0;
    for (let sum = 0; sum < cusum.limit; cases += 1) sum = nextSum(cusum, sum, random.next() < 0.15);
    return cases;
  }).toSorted((a, b) => a - b);
  const mean = lengths.reduce((sum, each) => sum + each, 0) / lengths.length;
  expect(mean / meanRunLength(cusum, 0.15)).toBeCloseTo(1, 1);
  for (const quantile of [0.5, 0.95]) {
    const found = lengths[Math.floor(quantile * lengths.length)] ?? 0;
    expect(found / runLengthQuantile(cusum, 0.15, quantile)).toBeCloseTo(1, 1);
  }
});
