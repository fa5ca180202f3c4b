/** Counts how often each service that the functions depend on throttled this process, and for how long its chunks are to wait. */

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

let waitSeconds = 0;

export function noteWait(seconds: number): void {
  waitSeconds += seconds;
}

/** Returns the seconds since the last call. */
export function takeWaits(): number {
  const taken = waitSeconds;
  waitSeconds = 0;
  return taken;
}
