/** The agreement of two raters: kappa and confusion tables. */
import { cohensKappa, confusion } from '../../../../src/core/statistics/agreement.ts';

const table = (...counts: number[][]) => ({ values: counts.map((_, index) => `v${index}`), counts });

describe("Cohen's kappa", () => {
  test('is 1 for full agreement, 0 for chance agreement, and negative for less', () => {
    expect(cohensKappa(table([30, 0], [0, 10]))).toEqual({ value: 1, low: expect.closeTo(0.819, 3), high: 1 });
    expect(cohensKappa(table([16, 4], [4, 1]))?.value).toBeCloseTo(0, 12);
    expect(cohensKappa(table([0, 10], [10, 0]))?.value).toBeCloseTo(-1, 12);
  });
  test('is not defined if both raters gave a single value, or for an empty table', () => {
    expect(cohensKappa(table([12, 0], [0, 0]))).toBeNull();
    expect(cohensKappa(table([0, 0], [0, 0]))).toBeNull();
  });
  test('has an interval from five labels, and five verdicts, of the rarer kind on', () => {
    for (const few of [table([95, 0], [1, 0]), table([95, 1], [0, 4]), table([90, 6], [4, 0]), table([90, 4], [6, 0])])
      expect(cohensKappa(few)).toMatchObject({ value: expect.any(Number), low: null, high: null });
    const { low, high } = cohensKappa(table([95, 0], [0, 5])) ?? {};
    expect([low, high]).toEqual([expect.closeTo(0.739, 3), 1]);
  });
  test('counts a near miss less than a far one with weights', () => {
    const near = table([10, 5, 0], [0, 10, 0], [0, 0, 10]);
    const far = table([10, 0, 5], [0, 10, 0], [0, 0, 10]);
    for (const weights of ['linear', 'quadratic'] as const) {
      expect(cohensKappa(near, weights)?.value).toBeGreaterThan(cohensKappa(far, weights)?.value as number);
    }
    expect(cohensKappa(near)?.value).toBeCloseTo(cohensKappa(far)?.value as number, 1);
  });
});

test('puts people in rows and the judge in columns of the confusion table', () => {
  const pairs = ['yes yes', 'yes no', 'yes no', 'no no'].map((pair) => {
    const [label = '', verdict = ''] = pair.split(' ');
    return { label, verdict };
  });
  expect(confusion(['yes', 'no'], pairs).counts.flat()).toEqual([1, 2, 0, 1]);
  expect(() => confusion(['yes'], pairs)).toThrow('not in the table');
});
