/**
 * The limits behind `SIZE` for all functions together: concurrent calls of the judge, and requests a second to a
 * managed MLflow, for which AWS publishes no limit. docs/limits.md explains the values.
 */
export const SIZES = {
  small: { judgeCalls: 32, mlflowRequests: 12 },
  medium: { judgeCalls: 64, mlflowRequests: 25 },
  large: { judgeCalls: 1_300, mlflowRequests: 140 },
} as const;
