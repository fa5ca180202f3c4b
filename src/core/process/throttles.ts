/** Counts how often each service that the functions depend on throttled this process, and for how many seconds its chunks are sent away. */

const noCounts = () => ({ judge: 0, mlflow: 0, table: 0, storage: 0, chunks: 0 });
let counts = noCounts();

/** @param times of `chunks`: seconds */
export function countThrottle(by: keyof typeof counts, times = 1): void {
  counts[by] += times;
}

/** Returns the counts since the last call. */
export function drainThrottles(): typeof counts {
  const taken = counts;
  counts = noCounts();
  return taken;
}
