/** Tables of the page, and its figures. Each figure has its exact value beside its text, for programs that read the page. */

import { whole as count, percent, type Shown } from '../core/text/figure-text.ts';
import { type Column, escapeHtml, section, table } from '../core/text/html-page.ts';
import { ERROR_REPLIES } from '../quality/objectives.ts';

/**
 * Returns a section with a table; nothing without rows.
 *
 * @param head names of the columns; those of figures begin with `#`
 * @param rows HTML
 */
export function sheet(title: string, note: string, head: string[], rows: readonly string[][]): string {
  const cell = (name: string, at: number): Column<string[]> => {
    return { name: name.replace(/^#/, ''), numeric: name.startsWith('#'), cell: (row) => row[at] ?? '' };
  };
  return rows.length === 0 ? '' : section(title, table(head.map(cell), rows, 'cards'), note);
}

const figure = (value: number, text: string): string => `<data value="${value}">${escapeHtml(text)}</data>`;
export const whole = (value = 0): string => figure(value, count(value));

/** A share, or another figure by the text that it has, with its interval if it has one. */
export function measured(of: Shown | null | undefined, text = percent): string {
  if (of == null || of.value === null) return '–';
  const { value, low, high } = of;
  const ends = low === null || high === null ? '' : `${figure(low, text(low))} to ${figure(high, text(high))}`;
  return figure(value, text(value)) + (ends && ` <span class="soft">(${ends})</span>`);
}

/** What a rate is called where the share that is good is shown. */
export const goodName = (scorer: string): string => (scorer === ERROR_REPLIES ? 'without error' : scorer);

/** A variant, and whether no user sees its replies. */
export const titled = (variant: string, shadow: readonly string[]): string =>
  `${variant}${shadow.includes(variant) ? ' (shadow)' : ''}`;
