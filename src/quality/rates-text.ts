/** Rates as text: trends, times, and CSV. */

import { csvCell } from '../core/text/csv.ts';
import { time } from '../core/text/figure-text.ts';
import type { TimeWindow } from './counts-store.ts';
import type { Outcomes } from './outcomes.ts';
import type { GroupRates } from './rates.ts';

const BARS = '▁▂▃▄▅▆▇█';
/** In a trend: no verdicts. */
const NO_BAR = '·';

/** Returns a bar for each step, from the lowest value to the highest. One that never changes is in the middle. */
export function sparkline(values: readonly (number | null)[]): string {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const bar = (value: number): string => BARS[high === low ? 3 : Math.round(((value - low) / (high - low)) * 7)] ?? '';
  return values.map((value) => (value === null ? NO_BAR : bar(value))).join('');
}

export const windowText = ({ fromMs, toMs }: TimeWindow): string =>
  `${time(fromMs).replace(' UTC', '')} to ${time(toMs)}`;

/** The outcomes in the order in which they are shown. */
export const OUTCOMES: readonly [keyof Outcomes, name: string][] = [
  ['good', 'good'],
  ['bad', 'bad'],
  ['other', 'neither'],
  ['empty', 'empty'],
  ['error', 'error'],
  ['notDrawn', 'not drawn'],
  ['held', 'held'],
  ['failed', 'failed'],
  ['doesNotApply', 'does not apply'],
];
const CSV_HEAD =
  'from,to,group,scorer,value,n,captures,rate,low,high,share,share_low,share_high,method,labels,covered,shadow,good,p50,p95,p99';

/** One row for each rate. Shares are from 0 to 1; cells without a figure are empty. */
export function ratesCsv(groups: readonly GroupRates[], { fromMs, toMs }: TimeWindow): string {
  const window = [fromMs, toMs].map((ms) => new Date(ms).toISOString());
  const rows = groups.flatMap(({ group, shadow = false, rates }) =>
    rates.map(({ scorer, is, n, captures, judge, share, low, high, method, labels, covered, good, quantiles }) => {
      const corrected = share === null ? [null, null, null] : [share, low, high];
      const seen = [judge?.value, judge?.low, judge?.high];
      const { p50, p95, p99 } = quantiles ?? {};
      const rest = [method, labels, covered, String(shadow), good?.value, p50, p95, p99];
      return [...window, group, scorer, is, n, captures, ...seen, ...corrected, ...rest].map(csvCell).join(',');
    }),
  );
  return `${[CSV_HEAD, ...rows].join('\n')}\n`;
}
