/** Tables of the page, and its figures. Each figure has its exact value beside its text, for programs that read the page. */

import type { Estimate } from '../core/statistics/share.ts';
import { type Column, escapeHtml, tableSection } from '../core/text/html-page.ts';
import { ERROR_REPLIES } from '../quality/objectives.ts';
import { percent } from './facts.ts';

/**
 * Returns a section with a table; nothing without rows.
 *
 * @param head names of the columns; those of figures begin with `#`
 * @param rows HTML
 */
export function sheet(
  title: string,
  note: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const columns = head.map((name, at): Column<readonly string[]> => {
    return { name: name.replace(/^#/, ''), numeric: name.startsWith('#'), cell: (row) => row[at] ?? '' };
  });
  return tableSection(title, columns, rows, note, 'cards');
}

export const figure = (value: number, text: string): string => `<data value="${value}">${escapeHtml(text)}</data>`;
export const whole = (value = 0): string => figure(value, Math.round(value).toLocaleString('en-US'));

/** A figure that may have an interval, or be unknown. */
interface Shown {
  value: number | null;
  low: number | null;
  high: number | null;
}

export const interval = ({ low, high }: Omit<Shown, 'value'>, text = percent): string =>
  low === null || high === null ? '–' : `${figure(low, text(low))} to ${figure(high, text(high))}`;

/** A share, or another figure by the text that it has, with its interval if it has one. */
export function measured(of: Shown | null | undefined, text = percent): string {
  if (of == null || of.value === null) return '–';
  const ends = of.low === null ? '' : ` <span class="soft">(${interval(of, text)})</span>`;
  return figure(of.value, text(of.value)) + ends;
}

const points = (value: number): string => `${value > 0 ? '+' : ''}${(100 * value).toFixed(1)}`;

/** A difference in points, and whether its interval excludes 0, by a sign and in words. */
export function difference(found: Estimate | undefined, words?: readonly [less: string, more: string]): string {
  if (found === undefined) return '–';
  const { low, high } = found;
  const [less, more] = words ?? ['worse', 'better'];
  const said = high < 0 ? `▼ ${less}` : low > 0 ? `▲ ${more}` : '= no clear difference';
  const look = words !== undefined || (low <= 0 && high >= 0) ? 'soft' : high < 0 ? 'bad' : 'good';
  return `${measured(found, points)} <span class="${look}">${said}</span>`;
}

/** What a rate is called where the share that is good is shown. */
export const goodName = (scorer: string): string => (scorer === ERROR_REPLIES ? 'without error' : scorer);
