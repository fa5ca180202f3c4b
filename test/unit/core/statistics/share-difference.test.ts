/** Tests of the differences of two shares. */
import { independentDifference, pairedDifference } from '../../../../src/core/statistics/share-difference.ts';

test('bounds a difference without events as exactly as a share', () => {
  const exact = 1 - 0.05 ** (1 / 300);
  const paired = pairedDifference({ onlyBefore: 0, onlyAfter: 0, pairs: 300 });
  for (const bounds of [paired, independentDifference([0, 300], [0, 300])]) {
    expect(bounds.estimate).toBe(0);
    expect(bounds.upper(0.05)).toBeCloseTo(exact, 8);
    expect(bounds.lower(0.05)).toBeCloseTo(-exact, 8);
  }
});

test('changes sign with before and after exchanged', () => {
  const worse = independentDifference([3, 200], [9, 150]);
  const better = independentDifference([9, 150], [3, 200]);
  expect(worse.upper(0.025)).toBeCloseTo(-better.lower(0.025), 8);
  const paired = pairedDifference({ onlyBefore: 2, onlyAfter: 11, pairs: 120 });
  expect(paired.upper(0.1)).toBeCloseTo(-pairedDifference({ onlyBefore: 11, onlyAfter: 2, pairs: 120 }).lower(0.1), 8);
});

test('has wider intervals at stricter levels, within −1 and 1', () => {
  for (const { estimate, lower, upper } of [
    pairedDifference({ onlyBefore: 0, onlyAfter: 20, pairs: 20 }),
    pairedDifference({ onlyBefore: 7, onlyAfter: 3, pairs: 40 }),
    independentDifference([0, 30], [30, 30]),
    independentDifference([400, 2000], [500, 2100]),
  ]) {
    const ends = [-1, lower(0.001), lower(0.05), estimate, upper(0.05), upper(0.001), 1];
    expect([...ends].sort((a, b) => a - b)).toEqual(ends);
  }
});

test('knows nothing without cases', () => {
  for (const { estimate, lower, upper } of [
    pairedDifference({ onlyBefore: 0, onlyAfter: 0, pairs: 0 }),
    independentDifference([0, 0], [3, 20]),
  ]) {
    expect([estimate, lower(0.05), upper(0.05)]).toEqual([Number.NaN, -1, 1]);
  }
});
