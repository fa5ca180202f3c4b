/** A share with its 95% confidence interval. */

/** A figure and its 95% confidence interval. */
export interface Estimate {
  value: number;
  low: number;
  high: number;
}

/** A share, with the counts it was made of. */
export interface Share extends Estimate {
  hits: number;
  of: number;
}

/** The 97.5% quantile of the normal distribution: 95% of the values are within ± this. */
export const Z_95 = 1.959963984540054;

/**
 * Returns the share with Wilson’s score interval, which stays within 0 and 1 for small counts and extreme shares too.
 *
 * @returns `null` for a share of nothing
 */
export function share(hits: number, of: number): Share | null {
  if (of === 0) return null;
  const value = hits / of;
  const z2 = Z_95 * Z_95;
  const center = (value + z2 / (2 * of)) / (1 + z2 / of);
  const half = (Z_95 / (1 + z2 / of)) * Math.sqrt((value * (1 - value)) / of + z2 / (4 * of * of));
  // Rounding would miss the exact bounds 0 and 1 by a hair.
  return { value, low: hits === 0 ? 0 : center - half, high: hits === of ? 1 : center + half, hits, of };
}
