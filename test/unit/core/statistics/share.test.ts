/** Tests of shares with confidence intervals. */
import { shareBounds, wilson } from '../../../../src/core/statistics/share.ts';

test('stays within 0 and 1', () => {
  expect(wilson(0, 10)).toMatchObject({ value: 0, low: 0 });
  expect(wilson(0, 10)?.high).toBeCloseTo(0.2775, 4);
  expect(wilson(10, 10)).toMatchObject({ value: 1, high: 1 });
  expect(wilson(10, 10)?.low).toBeCloseTo(0.7225, 4);
});

test('is null for a share of an empty total', () => expect(wilson(0, 0)).toBeNull());

test('bounds a share exactly, at any level', () => {
  // 1 − 0.05^(1/60): no hit in 60 excludes 5%.
  expect(shareBounds(0, 60).upper(0.05)).toBeCloseTo(1 - 0.05 ** (1 / 60), 12);
  expect(shareBounds(60, 60).lower(0.025)).toBeCloseTo(0.025 ** (1 / 60), 12);
  expect(shareBounds(0, 60).lower(0.05)).toBe(0);
  expect(shareBounds(60, 60).upper(0.05)).toBe(1);
});

test('counts open cases as hits for the upper bound alone', () => {
  const bounds = shareBounds(2, 50, 10);
  expect(bounds.estimate).toBe(0.05);
  expect(bounds.lower(0.05)).toBe(shareBounds(2, 50).lower(0.05));
  expect(bounds.upper(0.05)).toBe(shareBounds(12, 50).upper(0.05));
});

test('knows nothing about a share of nothing', () => {
  const { estimate, lower, upper } = shareBounds(0, 0);
  expect([estimate, lower(0.05), upper(0.05)]).toEqual([Number.NaN, 0, 1]);
});
