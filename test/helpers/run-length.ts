/** How long a sum takes to raise an alarm, for the bench of alarms and as a check of the mean. */
import type { Cusum } from '../../src/core/statistics/cusum.ts';

/**
 * Returns the number of cases within which a share `quantile` of all sums raises an alarm, starting at 0.
 *
 * @param share of the cases that fail; they are independent
 */
export function runLengthQuantile({ up, down, limit }: Cusum, share: number, quantile: number): number {
  let now = new Float64Array(limit);
  now[0] = 1;
  let rung = 0;
  for (let cases = 1; ; cases += 1) {
    const next = new Float64Array(limit);
    for (let sum = 0; sum < limit; sum += 1) {
      const mass = now[sum] ?? 0;
      if (sum + up < limit) next[sum + up] = (next[sum + up] ?? 0) + mass * share;
      else rung += mass * share;
      const lower = Math.max(0, sum - down);
      next[lower] = (next[lower] ?? 0) + mass * (1 - share);
    }
    if (rung >= quantile) return cases;
    now = next;
  }
}
