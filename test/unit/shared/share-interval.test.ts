/** Tests of shares with confidence intervals. */
import { share } from '../../../src/shared/share-interval.ts';

test('returns the bounds of Wilson’s interval', () => {
  // Calculated manually for 15 of 20: center 0.7097, half the width 0.1784.
  const { low, high } = share(15, 20) as { low: number; high: number };
  expect(low).toBeCloseTo(0.5313, 4);
  expect(high).toBeCloseTo(0.8881, 4);
});

test('stays within 0 and 1', () => {
  expect(share(0, 10)).toMatchObject({ value: 0, low: 0 });
  expect(share(0, 10)?.high).toBeCloseTo(0.2775, 4);
  expect(share(10, 10)).toMatchObject({ value: 1, high: 1 });
  expect(share(10, 10)?.low).toBeCloseTo(0.7225, 4);
});

test('is null for a share of an empty total', () => expect(share(0, 0)).toBeNull());
