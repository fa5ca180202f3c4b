/** Tests of the levels of repeated looks. */

import { Random } from '../../../../src/shared/random.ts';
import { normalQuantile } from '../../../../src/shared/statistics/distributions.ts';
import { SpendingLook, spendingLevels, spentAt } from '../../../../src/shared/statistics/spending.ts';

/** Boundaries of looks at equal distances, in standard deviations. */
function boundaries(spent: readonly number[]): number[] {
  let look = SpendingLook.none;
  return spent.map((probability, i) => {
    look = look.next(i + 1, probability);
    return -normalQuantile(look.level);
  });
}

// Constants for a two-sided level of 5%: Jennison and Turnbull (2000), tables 2.1 and 2.3. What each look spends on one side
// was computed with SciPy 1.17: 1 − the multivariate normal distribution function at the boundaries up to the look.
test.each([
  [2.178, [0.014703, 0.0250165]],
  [2.413, [0.0079109, 0.0137694, 0.0182807, 0.0219373, 0.0250114]],
  [
    2.555,
    [0.0053094, 0.0093583, 0.0125244, 0.0151153, 0.0173079, 0.0192089, 0.0208897, 0.022393, 0.0237563, 0.0249996],
  ],
])('finds Pocock’s constant %d', (constant, spent) => {
  for (const boundary of boundaries(spent)) expect(Math.abs(boundary - constant)).toBeLessThan(5e-4);
});

test.each([
  [1.977, [0.002587769, 0.0250262]],
  [2.004, [0.000259233, 0.007160938, 0.025002199]],
  [2.04, [2.539e-6, 0.000629785, 0.004453027, 0.012795153, 0.025004617]],
])('finds the constant %d of O’Brien and Fleming', (constant, spent) => {
  for (const [i, boundary] of boundaries(spent).entries()) {
    expect(Math.abs(boundary * Math.sqrt((i + 1) / spent.length) - constant)).toBeLessThan(5e-4);
  }
});

test('agrees with another program on Lan and DeMets’ spending after O’Brien and Fleming', () => {
  // SeqBounds.jl, README: one-sided 5%, looks at every quarter.
  const found = boundaries([8.85754e-5, 0.0055746, 0.0236251, 0.05]);
  for (const [i, boundary] of [3.74955, 2.53993, 2.01604, 1.72014].entries()) {
    expect(Math.abs((found[i] ?? 0) - boundary)).toBeLessThan(1e-4);
  }
});

test('spends nine tenths up to the plan, and never all of it', () => {
  expect(spentAt(0.5)).toBeCloseTo(0.45, 12);
  expect(spentAt(1)).toBeCloseTo(0.9, 12);
  expect(spentAt(2)).toBeCloseTo(0.95, 12);
  expect(spentAt(1000)).toBeLessThan(1);
});

test('crosses a boundary without a difference as often as allowed, at looks of any distances', () => {
  const sizes = [20, 25, 60, 100, 110, 200, 400];
  const levels = spendingLevels(
    sizes.map((size) => size / 100),
    0.05,
  );
  const limits = levels.map((level, i) => -normalQuantile(level) * Math.sqrt(sizes[i] ?? 0));
  const random = new Random(3);
  const normal = (): number => Math.sqrt(2 * random.exponential(1)) * Math.cos(2 * Math.PI * random.next());
  let crossed = 0;
  const trials = 40_000;
  for (let trial = 0; trial < trials; trial++) {
    let sum = 0;
    const isCrossed = sizes.some((size, i) => {
      sum += Math.sqrt(size - (sizes[i - 1] ?? 0)) * normal();
      return sum > (limits[i] ?? 0);
    });
    if (isCrossed) crossed++;
  }
  // 4.875% are allowed up to four times the plan; three standard errors are 0.32%.
  expect(Math.abs(crossed / trials - 0.05 * spentAt(4))).toBeLessThan(0.0033);
});
