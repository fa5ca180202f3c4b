/** Counts how often each service that the functions depend on throttled this process. */

export const THROTTLERS = ['judge', 'mlflow', 'table', 'storage'] as const;
export type Throttler = (typeof THROTTLERS)[number];

const counts: Record<Throttler, number> = { judge: 0, mlflow: 0, table: 0, storage: 0 };

export function noteThrottle(by: Throttler): void {
  counts[by] += 1;
}

/** Returns the counts since the last call. */
export function takeThrottles(): Record<Throttler, number> {
  const taken = { ...counts };
  for (const by of THROTTLERS) counts[by] = 0;
  return taken;
}
