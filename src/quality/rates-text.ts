/** Rates as text: trends, times, outcomes, and CSV. */

import { csvText } from '../core/text/csv.ts';
import { many, percent, time } from '../core/text/figure-text.ts';
import { count } from '../core/text/html-page.ts';
import { type Part, table } from '../core/text/page.ts';
import { namedCounts } from '../core/text/terminal-text.ts';
import type { TimeWindow } from './counts-store.ts';
import NAMES from './outcome-names.json' with { type: 'json' };
import type { Outcomes, ScorerOutcomes } from './outcomes.ts';
import type { GroupRates } from './rates.ts';
import type { Represented } from './strata.ts';

const BARS = '▁▂▃▄▅▆▇█';
/** Mark in a trend for a period without verdicts. */
const NO_BAR = '·';

/**
 * Returns a bar for each value, scaled from the lowest to the highest value. Equal values get bars of half height.
 *
 * @example
 *     sparkline([1, 2, null, 8])   // '▁▂·█'
 */
export function sparkline(values: readonly (number | null)[]): string {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const bar = (value: number): string => BARS[high === low ? 3 : Math.round(((value - low) / (high - low)) * 7)] ?? '';
  return values.map((value) => (value === null ? NO_BAR : bar(value))).join('');
}

export const windowText = ({ fromMs, toMs }: TimeWindow): string =>
  `${time(fromMs).replace(' UTC', '')} to ${time(toMs)}`;

/** Periods without verdicts that are named. */
const MAX_GAPS = 3;

/**
 * Says which captures the verdicts of a figure do not represent.
 *
 * @returns such as `, of 93.0% of the captures; nothing judged 2026-11-20 14:00 to 2026-11-20 19:00 UTC`; empty if they represent all
 */
export function representedText({ represented = 1, gaps = [] }: Omit<Represented, 'captures'>): string {
  if (represented === 1 || represented === 0) return '';
  const times = gaps
    .slice(0, MAX_GAPS)
    .map(({ from, to }) => windowText({ fromMs: Date.parse(from), toMs: Date.parse(to) }));
  const more = gaps.length > MAX_GAPS ? ` and ${gaps.length - MAX_GAPS} times more` : '';
  const when = times.length > 0 ? `; nothing judged ${times.join(', ')}${more}` : '';
  return `, of ${percent(Math.min(represented, 0.999))} of the captures${when}`;
}

/** The outcomes in the order in which they are shown. */
const OUTCOMES = Object.entries(NAMES) as [keyof Outcomes, name: string][];
/** Reasons why a scorer does not apply that are named. */
const MAX_REASONS = 3;

/** Returns the outcomes of the captures by scorer. The columns of a row add up to all captures. */
export function outcomesTable(outcomes: readonly ScorerOutcomes[]): Part {
  const seen = OUTCOMES.filter(([outcome]) => outcomes.some((one) => one[outcome] !== 0));
  const rows = outcomes.map((one) => [
    one.scorer,
    ...seen.map(([outcome]) => count(one[outcome])),
    namedCounts(one.reasons, MAX_REASONS),
  ]);
  return table(rows, [`of ${many(outcomes[0]?.captures ?? 0, 'capture')}`, ...seen.map(([, name]) => name), 'why not']);
}

const CSV_HEAD =
  'from,to,group,scorer,value,n,captures,rate,low,high,share,share_low,share_high,method,labels,covered,shadow,good,p50,p95,p99,represented';

/** Returns a row for each rate. Shares are from 0 to 1; cells without a figure are empty. */
export function ratesCsv(groups: readonly GroupRates[], { fromMs, toMs }: TimeWindow): string {
  const window = [fromMs, toMs].map((ms) => new Date(ms).toISOString());
  const rows = groups.flatMap(({ group, shadow = false, rates }) =>
    rates.map((rate) => {
      const { scorer, is, n, captures, judge, share, low, high, method, labels, covered, good, quantiles } = rate;
      const corrected = share === null ? [null, null, null] : [share, low, high];
      const seen = [judge?.value, judge?.low, judge?.high];
      const { p50, p95, p99 } = quantiles ?? {};
      const rest = [method, labels, covered, String(shadow), good?.value, p50, p95, p99, rate.represented ?? 1];
      return [...window, group, scorer, is, n, captures, ...seen, ...corrected, ...rest];
    }),
  );
  return csvText(CSV_HEAD.split(','), rows);
}
