/** Tests of shares from samples with weights. */
import { shareBounds } from '../../../../src/shared/statistics/share.ts';
import { weightedShare } from '../../../../src/shared/statistics/weights.ts';

const cases = (hits: number, of: number, weight: number) =>
  Array.from({ length: of }, (_, at) => ({ hit: at < hits, weight }));

test('has the exact bounds of a share for equal weights', () => {
  for (const hits of [0, 3, 40]) {
    const ours = weightedShare(cases(hits, 40, 12.5));
    expect(ours.effectiveSize).toBeCloseTo(40, 9);
    expect(ours.estimate).toBeCloseTo(hits / 40, 12);
    expect(ours.lower(0.05)).toBeCloseTo(shareBounds(hits, 40).lower(0.05), 9);
    expect(ours.upper(0.05)).toBeCloseTo(shareBounds(hits, 40).upper(0.05), 9);
  }
});

test('counts each case for those it stands for', () => {
  // All 10 errors are judged, and each twentieth of the 400 other replies, of which 2 in 20 are bad.
  const ours = weightedShare([...cases(10, 10, 1), ...cases(2, 20, 20)]);
  expect(ours.estimate).toBeCloseTo((10 + 2 * 20) / 410, 12);
  expect(ours.effectiveSize).toBeCloseTo(410 ** 2 / (10 + 20 * 400), 12);
  expect(ours.upper(0.05)).toBeGreaterThan(shareBounds(4, 30).upper(0.05));
});

test('knows nothing without cases', () => {
  const { estimate, lower, upper } = weightedShare([]);
  expect([estimate, lower(0.05), upper(0.05)]).toEqual([Number.NaN, 0, 1]);
});
