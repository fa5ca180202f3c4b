/** Corrections for several tests at once: a test is significant at a level if its adjusted p-value is at most that level. */

/** Returns the positions of the p-values, the smallest first. */
const ascending = (pValues: readonly number[]): number[] =>
  [...pValues.keys()].sort((a, b) => (pValues[a] ?? 0) - (pValues[b] ?? 0));

/**
 * Returns p-values adjusted by Holm’s procedure (1979), in the given order: at level alpha, the probability of one or more false
 * alarms among all tests is at most alpha, however the tests depend on each other.
 */
export function holm(pValues: readonly number[]): number[] {
  const adjusted: number[] = [];
  let largest = 0;
  for (const [rank, at] of ascending(pValues).entries()) {
    largest = Math.max(largest, Math.min(1, (pValues.length - rank) * (pValues[at] ?? 1)));
    adjusted[at] = largest;
  }
  return adjusted;
}

/**
 * Returns p-values adjusted by the procedure of Benjamini and Hochberg (1995), in the given order: at level alpha, on average at
 * most a share alpha of the alarms is false. Assumes that tests are independent or positively dependent.
 */
export function benjaminiHochberg(pValues: readonly number[]): number[] {
  const adjusted: number[] = [];
  let smallest = 1;
  for (const [rank, at] of [...ascending(pValues).entries()].reverse()) {
    smallest = Math.min(smallest, (pValues.length / (rank + 1)) * (pValues[at] ?? 1));
    adjusted[at] = smallest;
  }
  return adjusted;
}
