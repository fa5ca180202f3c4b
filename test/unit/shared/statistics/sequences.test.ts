/** Tests of always-valid bounds. */
import { Random } from '../../../../src/shared/random.ts';
import type { Bounds } from '../../../../src/shared/statistics/bounds.ts';
import { meanSequence, shareSequence } from '../../../../src/shared/statistics/sequences.ts';
import { shareBounds } from '../../../../src/shared/statistics/share.ts';

/** Returns the share of runs in which an upper bound at 5% is below the true share of 10% at any of 20 looks. */
function everWrong(boundsOf: (hits: number, of: number) => Bounds): number {
  const random = new Random(3);
  let wrong = 0;
  for (let run = 0; run < 200; run += 1) {
    let hits = 0;
    let ever = false;
    for (let of = 1; of <= 400; of += 1) {
      hits += random.next() < 0.1 ? 1 : 0;
      if (of % 20 === 0) ever ||= boundsOf(hits, of).upper(0.05) < 0.1;
    }
    if (ever) wrong += 1;
  }
  return wrong / 200;
}

test('holds over all looks, unlike the bounds of a fixed size', () => {
  expect(everWrong((hits, of) => shareSequence(hits, of, 200))).toBeLessThanOrEqual(0.05);
  expect(everWrong(shareBounds)).toBeGreaterThan(0.065);
});

test('knows nothing about a mean without spread', () => {
  const { lower, upper } = meanSequence({ of: 40, mean: 7, deviation: 0, skewness: Number.NaN }, 100);
  expect([lower(0.05), upper(0.05)]).toEqual([-Infinity, Infinity]);
});

test('reaches further to the side of the long tail, which a sample may not have seen', () => {
  const sample = { of: 200, mean: 0, deviation: 1, skewness: 0 };
  const even = meanSequence(sample, 200);
  const right = meanSequence({ ...sample, skewness: 2 }, 200);
  const left = meanSequence({ ...sample, skewness: -2 }, 200);
  expect(right.upper(0.05)).toBeGreaterThan(even.upper(0.05));
  expect(right.lower(0.05)).toBeGreaterThan(even.lower(0.05));
  expect(left.lower(0.05)).toBeCloseTo(-right.upper(0.05), 12);
});
