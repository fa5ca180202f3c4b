/** Tests of shares from samples with weights. */
import { weightedShare } from '../../../../src/core/statistics/share.ts';

const cases = (hits: number, of: number, weight: number) =>
  Array.from({ length: of }, (_, at) => ({ hit: at < hits, weight }));

test('is that of the cases for equal weights', () => {
  for (const hits of [0, 3, 40]) expect(weightedShare(cases(hits, 40, 12.5))).toEqual({ share: hits / 40, of: 40 });
});

test('counts each case for those it stands for', () => {
  // All 10 errors are judged, and each twentieth of the 400 other replies, of which 2 in 20 are bad.
  const { share, of } = weightedShare([...cases(10, 10, 1), ...cases(2, 20, 20)]);
  expect(share).toBeCloseTo((10 + 2 * 20) / 410, 12);
  expect(of).toBeCloseTo(410 ** 2 / (10 + 20 * 400), 12);
});

test('has no more cases than the variance supports', () => {
  // The hits are among the cases with the larger weights, which are few.
  const { share, of } = weightedShare([...cases(0, 100, 1), ...cases(5, 10, 20)]);
  const variance = (100 * share ** 2 + 400 * (5 * (1 - share) ** 2 + 5 * share ** 2)) / 300 ** 2;
  expect(share).toBeCloseTo(1 / 3, 12);
  expect(of).toBeCloseTo((share * (1 - share)) / variance, 9);
  expect(of).toBeLessThan(300 ** 2 / (100 + 10 * 400));
});

test('knows nothing without cases', () => {
  expect(weightedShare([])).toEqual({ share: Number.NaN, of: 0 });
});
