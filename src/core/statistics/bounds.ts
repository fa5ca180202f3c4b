/** The form in which all estimates give their uncertainty, so that a decision can be made at any level. */

/**
 * A quantity with its one-sided confidence bounds. A bound at level `alpha` is beyond the true value in at most a share
 * `alpha` of all samples; the two-sided 95% interval is `lower(0.025)` to `upper(0.025)`.
 */
export interface Bounds {
  estimate: number;
  /** Lower end of the one-sided interval; `-Infinity` if the sample excludes no small value. */
  lower(alpha: number): number;
  /** Upper end of the one-sided interval; `Infinity` if the sample excludes no large value. */
  upper(alpha: number): number;
  /** Set if neighbouring values are alike: the number of independent values with the same information. */
  effective?: number;
  /** Degrees of freedom of the variance that the bounds rest on. Absent for shares. */
  freedom?: number;
}

/** Returns the bounds of a sample, or of a similar sample of another size. Returns `undefined` for too few values. */
export type SizedBounds = (size?: number) => Bounds | undefined;
