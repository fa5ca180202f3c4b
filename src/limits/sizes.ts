/**
 * The limits that `SIZE` stands for, of all functions together: calls of the judge at the same time, and requests a second to a
 * managed MLflow, for which AWS publishes none. docs/limits.md says why they are these.
 */
export const SIZES = {
  small: { judgeCalls: 32, mlflowRequests: 12 },
  medium: { judgeCalls: 64, mlflowRequests: 25 },
  large: { judgeCalls: 1_300, mlflowRequests: 140 },
} as const;
