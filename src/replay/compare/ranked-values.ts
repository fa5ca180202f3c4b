/**
 * The values of a metric in two runs. A failed request ranks behind every success: a missing reply is not a fast reply.
 */
import type { ComparedValues } from './compared-data.ts';
import type { RequestTable } from './request-table.ts';
import { isLargerBetter, METRIC_TAGS } from './run-data.ts';

const FIRST_TOKEN = METRIC_TAGS.indexOf('time_to_first_token');

/** The value of a failed request for each metric. NaN for metrics without a better direction, such as a length. */
const BEHIND = METRIC_TAGS.map(
  (tag) => ({ true: -Infinity, false: Infinity })[String(isLargerBetter(tag))] ?? Number.NaN,
);

/**
 * Returns the values of the pairs.
 *
 * @param pairs rows of the first run, and rows of the same requests in the second run, in the order of sending
 * @param metric index in `METRIC_TAGS`
 */
export function rankedValues(
  tables: readonly [RequestTable, RequestTable],
  pairs: readonly [number[], number[]],
  metric: number,
): ComparedValues {
  const isMeasured = tables.map((table) => table.isMeasured(metric));
  const own = [new Map<number, number>(), new Map<number, number>()] as const;
  const measuredIn = (run: 0 | 1, row: number): number => {
    const outcome = tables[run].outcome(row);
    // A stream that broke has sent its first token.
    return outcome === 'ok' || (outcome === 'failed' && metric === FIRST_TOKEN)
      ? tables[run].value(row, metric)
      : Number.NaN;
  };
  /**
   * @param other the value of the same request in the other run. If absent, it is unknown whether the reply would have
   *   had the metric
   */
  const rank = (run: 0 | 1, row: number, other = Number.NaN): number => {
    const value = measuredIn(run, row);
    if (!Number.isNaN(value) || tables[run].outcome(row) !== 'failed') return value;
    return isMeasured[run] || !Number.isNaN(other) ? (BEHIND[metric] ?? Number.NaN) : Number.NaN;
  };
  const found: [number[], number[]] = [[], []];
  const add = (run: 0 | 1, value: number, row: number): void => {
    const until = tables[run].value(row, metric);
    if (!Number.isFinite(value) && !Number.isNaN(until)) own[run].set(found[run].length, until);
    found[run].push(value);
  };
  for (const [i, was] of pairs[0].entries()) {
    const is = pairs[1][i] ?? 0;
    const [then, now] = [rank(0, was, measuredIn(1, is)), rank(1, is, measuredIn(0, was))];
    if (Number.isNaN(then) || Number.isNaN(now)) continue;
    add(0, then, was);
    add(1, now, is);
  }
  const rankedOf = (run: 0 | 1): number => {
    let ranked = 0;
    for (let row = 0; row < tables[run].size; row++) if (!Number.isNaN(rank(run, row))) ranked++;
    return ranked;
  };
  const of = Math.max(found[0].length, rankedOf(0), rankedOf(1));
  return { before: Float64Array.from(found[0]), after: Float64Array.from(found[1]), own, of };
}
