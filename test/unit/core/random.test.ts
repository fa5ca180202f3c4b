/** Random numbers have the distributions that they are named for. */

import { binomialProbability, normalCdf } from '../../../src/core/statistics/distributions.ts';
import { Random } from '../../../src/core/values/random.ts';

const DRAWS = 20_000;

/** The largest distance of a share of the draws from its probability, in standard errors. */
function worst(draws: readonly number[], cases: readonly (readonly [(value: number) => boolean, number])[]): number {
  return Math.max(
    ...cases.map(([counts, probability]) => {
      const share = draws.filter(counts).length / draws.length;
      return Math.abs(share - probability) / Math.sqrt((probability * (1 - probability)) / draws.length);
    }),
  );
}

test('normal values are as often below a limit as the distribution says', () => {
  const random = new Random(1);
  const draws = Array.from({ length: DRAWS }, () => random.normal());
  expect(
    worst(
      draws,
      [-2, -1, 0, 0.5, 1.645, 2.5].map((z) => [(value) => value <= z, normalCdf(z)]),
    ),
  ).toBeLessThan(3);
});

test.each([
  [20, 0.02],
  [50, 0.3],
  [300, 0.995],
  [10, 0.5],
])('hits of %i cases with a share of %f have binomial frequencies', (of, share) => {
  const random = new Random(2);
  const draws = Array.from({ length: DRAWS }, () => random.binomial(of, share));
  const middle = Math.round(of * share);
  const counts = [middle - 2, middle - 1, middle, middle + 1].filter((hits) => hits >= 0 && hits <= of);
  expect(
    worst(
      draws,
      counts.map((hits) => [(drawn) => drawn === hits, binomialProbability(hits, of, share)]),
    ),
  ).toBeLessThan(3.5);
});

test('shares of 0 and 1 hit never and always', () => {
  const random = new Random(3);
  expect([random.binomial(100, 0), random.binomial(100, 1), random.binomial(0, 0.5)]).toEqual([0, 100, 0]);
});
