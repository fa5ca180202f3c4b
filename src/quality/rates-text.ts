/** Rates as text: tables for terminals of any width, and CSV. */

import type { Measured } from '../core/statistics/sampled-mean.ts';
import { many, number, percent, points, time, whole } from '../core/text/figure-text.ts';
import {
  namedCounts,
  type Style,
  singleLine,
  type TextOptions,
  tableLines,
  tableText,
  wrapped,
} from '../core/text/terminal-text.ts';
import type { TimeWindow } from './counts-store.ts';
import { ERROR_REPLIES } from './objectives.ts';
import type { Outcomes, ScorerOutcomes } from './outcomes.ts';
import { quantilesText } from './quantiles.ts';
import type { GroupRates, Rate, RateDifference } from './rates.ts';

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

/** Whether the figure is a mean and no share. */
const isMean = ({ is, scorer }: Pick<Rate, 'is' | 'scorer'>): boolean => is === undefined && scorer !== ERROR_REPLIES;
const figure = (rate: Rate, value: number): string => (isMean(rate) ? number(value) : percent(value));

function intervalOf(rate: Rate, { low, high }: Measured): string {
  return low === null || high === null ? 'too few' : `${figure(rate, low)} – ${figure(rate, high)}`;
}

/** Names the captures that labels speak for, if it is not all. */
const coveredText = (covered: number | null): string =>
  covered === null ? '' : `, of ${whole(covered)} captures picked from`;

/** What a figure is of: what is good, if something is. */
function nameOf({ scorer, is, good }: Pick<Rate | RateDifference, 'scorer' | 'is' | 'good'>): string {
  if (scorer === ERROR_REPLIES) return 'without error';
  return singleLine(good === null ? `${scorer} = ${is}` : `${scorer}: good`);
}

/** The columns of a rate. */
function cellsOf(rate: Rate): string[] {
  const { scorer, n, captures, empty = 0, judge, good, share, low, high, method, labels, covered, trend } = rate;
  const name = isMean(rate) ? `${scorer} (mean)` : judge === null ? scorer : nameOf(rate);
  const sampled = captures > 0 ? percent(n / captures) : '–';
  // Of a judge's verdicts, the value that is good is counted.
  const shown = method === 'computed' && good !== null ? good : judge;
  const seen = shown === null ? '–' : figure(rate, shown.value);
  const ofJudge = shown === null ? '–' : intervalOf(rate, shown);
  const ofEmpty = empty > 0 ? `; ${whole(empty)} empty` : '';
  const corrected =
    share === null || low === null || high === null
      ? `${method}${ofEmpty}`
      : `${percent(share)}  (${percent(low)} – ${percent(high)}) ${method}, ${whole(labels)} labels${coveredText(covered)}${ofEmpty}`;
  return [singleLine(name), whole(n), sampled, seen, ofJudge, corrected, sparkline(good?.trend ?? trend)];
}

const HEAD = ['scorer', 'n', 'sampled', 'rate', '95% interval', 'corrected', 'trend'];

/** A rate in lines of its own, for narrow terminals. */
const stacked = ([name = '', n, sampled, rate, interval, corrected, trend]: string[], style: Style): string[] => [
  style('bold', name),
  `  ${rate}  (${interval})`,
  `  n ${n}, ${sampled} sampled`,
  `  ${corrected}`,
  ...(trend === '' ? [] : [`  ${trend}`]),
];

function totalsLines({ totals, rates }: GroupRates): string[] {
  const { captures = 0, errorReplies = 0, inputTokens = 0, outputTokens = 0, judgeUsd = 0 } = totals;
  const calls = namedCounts(totals.failedCalls);
  const empty = totals.replies?.words?.empty ?? 0;
  const said = empty > 0 ? `, ${whole(empty)} empty ${empty === 1 ? 'reply' : 'replies'}` : '';
  const usd = rates.length === 0 || judgeUsd === 0 ? '' : `, judge $${judgeUsd.toFixed(2)}`;
  return [
    `${whole(captures)} ${captures === 1 ? 'capture' : 'captures'}, ${whole(errorReplies)} error ${errorReplies === 1 ? 'reply' : 'replies'}${said}, ${whole(inputTokens)} + ${whole(outputTokens)} tokens${usd}`,
    ...(calls === '' ? [] : [`calls without a reply, in no rate: ${calls}`]),
  ];
}

export const windowText = ({ fromMs, toMs }: TimeWindow): string =>
  `${time(fromMs).replace(' UTC', '')} to ${time(toMs)}`;

/** @param width of the terminal; `Infinity` for none */
export function ratesTable(groups: readonly GroupRates[], by: string | undefined, width: number, style: Style): string {
  const lines = groups.flatMap((group) => {
    const rows = group.rates.map(cellsOf);
    const fits = (lines: readonly string[]): boolean => lines.every((line) => [...line].length <= width);
    // Without the trend if there is no room for it.
    const lined = [HEAD.length, HEAD.length - 1].map((count) => tableLines(HEAD.slice(0, count), rows)).find(fits);
    const [head = '', ...body] = lined ?? [];
    const mark = group.shadow ? ' (shadow: not in the rates of the endpoint)' : '';
    const title = by === undefined ? [] : [style('bold', `${by} ${singleLine(group.group)}${mark}`)];
    const wide = [style('dim', head), ...body.map((line, n) => (group.rates[n]?.judge ? line : style('dim', line)))];
    const narrow = rows.flatMap((row) => stacked(row, style));
    const spread = group.rates.flatMap(({ scorer, quantiles }) =>
      quantiles === undefined ? [] : wrapped(`${singleLine(scorer)}: ${quantilesText(quantiles)}`, width),
    );
    const totals = totalsLines(group).flatMap((line) => wrapped(line, width));
    const became = by === undefined ? outcomeLines(group.outcomes, { width, style }) : [];
    return [...title, ...totals, ...(lined ? wide : narrow), ...spread, '', ...became];
  });
  return `${lines.join('\n')}\n`;
}

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
/** Reasons why a scorer does not apply that are named. */
const MAX_REASONS = 3;

/** A table of what became of the captures, by scorer; nothing without scorers. */
export function outcomeLines(outcomes: readonly ScorerOutcomes[], options: TextOptions): string[] {
  if (outcomes.length === 0) return [];
  const seen = OUTCOMES.filter(([outcome]) => outcomes.some((one) => one[outcome] !== 0));
  const rows = outcomes.map((one) => [
    singleLine(one.scorer),
    ...seen.map(([outcome]) => whole(one[outcome])),
    namedCounts(one.reasons, MAX_REASONS),
  ]);
  const head = [`of ${many(outcomes[0]?.captures ?? 0, 'capture')}`, ...seen.map(([, name]) => name), ''];
  return tableText(head, rows, options).split('\n');
}

/** A difference whose interval excludes 0 is colored, if something is good or bad. */
export function differencesText(
  title: string,
  differences: readonly RateDifference[],
  width: number,
  style: Style,
): string {
  const lines = differences.flatMap((difference) => {
    const { good, judge, share, method, covered } = difference;
    const { value, low, high } = good ?? { ...difference, value: share ?? judge.value };
    const text = `  ${nameOf(difference)} ${points(value)} points (${points(low)} to ${points(high)}), ${method}${coveredText(covered)}`;
    const color = good === null ? undefined : high < 0 ? 'red' : low > 0 ? 'green' : undefined;
    return wrapped(text, width).map((line) => (color === undefined ? line : style(color, line)));
  });
  const none = '  no scorer has verdicts in both';
  return `${[style('bold', title), ...(lines.length === 0 ? [none] : lines)].join('\n')}\n`;
}

const csvCell = (value: string | number | null | undefined): string => {
  const text = value === null || value === undefined ? '' : String(value);
  // A spreadsheet would take a text that begins like this for a formula.
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

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
