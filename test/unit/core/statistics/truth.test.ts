/** ROC AUC, averages over classes, and errors of numbers, against their definitions. */

import { classAverages, f1Estimate } from '../../../../src/core/statistics/agreement.ts';
import { NumberErrors } from '../../../../src/core/statistics/number-errors.ts';
import { rocAuc } from '../../../../src/core/statistics/roc-auc.ts';
import { Random } from '../../../../src/core/values/random.ts';

const random = new Random(2);
const scoresOf = (labels: number[], rows: number[][]) => {
  const width = rows[0]?.length ?? 0;
  return { values: Float64Array.from(rows.flat()), width, labels: Uint16Array.from(labels) };
};

test('the area is the share of pairs in order, and its error that of DeLong', () => {
  const labels = Array.from({ length: 300 }, () => random.below(2));
  const scores = labels.map((label) => Math.round(4 * (random.normal() + (label === 0 ? 1 : 0))));
  const [inside, outside] = [0, 1].map((label) => scores.filter((_, i) => labels[i] === label)) as [number[], number[]];
  const order = (a: number, b: number) => (a > b ? 1 : a === b ? 0.5 : 0);
  const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / values.length;
  const ofInside = inside.map((a) => mean(outside.map((b) => order(a, b))));
  const ofOutside = outside.map((b) => mean(inside.map((a) => order(a, b))));
  const area = mean(ofInside);
  const rows = scores.map((score) => [score]);
  const found = rocAuc(scoresOf(labels, rows), [0]);
  expect(found?.value).toBeCloseTo(area, 12);
  const variance = (values: number[]) =>
    values.reduce((sum, x) => sum + (x - area) ** 2, 0) / (values.length - 1) / values.length;
  const error = Math.sqrt(variance(ofInside) + variance(ofOutside));
  // With hundreds of cases, it is nearly the interval of the normal curve.
  expect(((found?.high ?? 0) - (found?.low ?? 0)) / (2 * 1.96 * error)).toBeCloseTo(1, 1);
});

test('the area of scores that separate the classes is 1, however many there are, and its interval is narrow', () => {
  for (let count = 20; count < 200; count += 1) {
    const labels = Array.from({ length: 2 * count }, (_, i) => i % 2);
    const rows = labels.map((label) => [1 - label]);
    const found = rocAuc(scoresOf(labels, rows), [0]);
    expect(found).toMatchObject({ value: 1, high: 1 });
    expect(found?.low).toBeGreaterThan(0.8);
  }
});

test('an area of few cases that are separated is not certain', () => {
  const found = rocAuc(scoresOf([0, 0, 0, 1, 1, 1], [[9], [8], [7], [3], [2], [1]]), [0]);
  expect(found).toMatchObject({ value: 1, high: 1 });
  expect(found?.low).toBeLessThan(0.6);
  const reversed = rocAuc(scoresOf([1, 1, 1, 0, 0, 0], [[9], [8], [7], [3], [2], [1]]), [0]);
  expect(reversed).toMatchObject({ value: 0, low: 0 });
  expect(reversed?.high).toBeCloseTo(1 - (found?.low ?? 0), 9);
  expect(rocAuc(scoresOf([0, 0], [[1], [2]]), [0])).toBeNull();
  const crossed = [
    [1, 2],
    [2, 1],
  ];
  expect(rocAuc(scoresOf([0, 1], crossed), [0, 1])).toMatchObject({ value: 0 });
  expect(rocAuc(scoresOf([0, 2], crossed), [0, 1])).toBeNull();
});

test('the interval of F1 is that of the share it is made of', () => {
  expect(f1Estimate(0, 0, 0)).toBeNull();
  expect(f1Estimate(0, 3, 2)).toMatchObject({ value: 0, low: 0 });
  expect(f1Estimate(5, 5, 5)).toMatchObject({ value: 1, high: 1 });
  expect(f1Estimate(8, 10, 12)?.value).toBeCloseTo(16 / 22, 12);
});

test('averages are as certain as the bootstrap says', () => {
  const counts = [
    [300, 40, 10],
    [30, 120, 5],
    [5, 10, 20],
  ];
  const cells = counts.flatMap((row, i) => row.flatMap((count, j) => Array<[number, number]>(count).fill([i, j])));
  const samples = Array.from({ length: 400 }, () => {
    const drawn = counts.map((row) => row.map(() => 0));
    for (let k = 0; k < cells.length; k += 1) {
      const [i, j] = cells[random.below(cells.length)] as [number, number];
      (drawn[i] as number[])[j] = (drawn[i]?.[j] ?? 0) + 1;
    }
    return classAverages({ values: [], counts: drawn });
  });
  const own = classAverages({ values: [], counts });
  for (const average of ['macro', 'weighted'] as const) {
    for (const name of ['precision', 'recall', 'f1'] as const) {
      const values = samples.map((sample) => sample?.[average][name].value ?? 0);
      const mean = values.reduce((a, b) => a + b, 0) / values.length;
      const spread = Math.sqrt(values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (values.length - 1));
      const { low = 0, high = 0 } = own?.[average][name] ?? {};
      const ratio = (high - low) / (2 * 1.96 * spread);
      if (ratio < 0.88 || ratio > 1.15) throw new Error(`${average} ${name}: ${ratio}`);
    }
  }
  expect(classAverages({ values: [], counts: [] })).toBeNull();
  const right = classAverages({
    values: [],
    counts: [
      [3, 0],
      [0, 2],
    ],
  });
  expect(right?.macro.f1).toMatchObject({ value: 1, high: 1 });
  expect(right?.macro.f1.low).toBeLessThan(0.7);
});

test('errors of numbers need only one pass over the cases', () => {
  const pairs = Array.from({ length: 2000 }, (_, i) => [1e6 + i + random.normal(), 1e6 + i + random.normal()] as const);
  const errors = new NumberErrors();
  for (const [label, prediction] of pairs) errors.add(label, prediction);
  const mean = (value: (pair: readonly [number, number]) => number) =>
    pairs.reduce((sum, pair) => sum + value(pair), 0) / pairs.length;
  const center = mean(([label]) => label);
  const [mse, variance] = [mean(([y, p]) => (p - y) ** 2), mean(([y]) => (y - center) ** 2)];
  const r2 = errors.r2();
  expect(r2?.value).toBeCloseTo(1 - mse / variance, 12);
  // The spread of the two sums together, by its definition.
  const spread = mean(([y, p]) => ((p - y) ** 2 / mse - (y - center) ** 2 / variance) ** 2);
  const reach = 1.961_2 * Math.sqrt(spread / 2000);
  const own = (end: number | null | undefined) => Math.log((1 - (end ?? 0)) / (1 - (r2?.value ?? 0))) / reach;
  // The lower end has room for errors that the sample has not seen.
  expect([own(r2?.low), own(r2?.high)]).toEqual([expect.closeTo(1.11, 1), expect.closeTo(-0.95, 1)]);
  expect(errors.rmse().value).toBeCloseTo(Math.sqrt(mse), 12);
  const bias = mean(([y, p]) => p - y);
  expect(errors.bias().value).toBeCloseTo(bias, 9);
});

test('R² of labels of two values has an interval', () => {
  const errors = new NumberErrors();
  for (let i = 0; i < 1000; i += 1) errors.add(i % 2, (i % 2) + (i % 5) / 10);
  expect(errors.r2()).toMatchObject({ low: expect.any(Number), high: expect.any(Number) });
  const { low, value, high } = errors.r2() as { low: number; value: number; high: number };
  expect(low < value && value < high && high <= 1).toBe(true);
});
