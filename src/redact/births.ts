/** Dates of birth: dates that a word before or behind them, or the name of their field, announces. */

import { type Form, type Place, strengthAt } from './form.ts';

const NUMBERS = [
  // The year first. In the years of an era, a name of the era may stand before it.
  '(?:\\d{4}|(?:昭和|平成|令和|大正|民國|民国)?\\d{1,3}(?=年)) ?[-/.년年] ?\\d{1,2} ?[-/.월月] ?\\d{1,2} ?[일日]?',
  '\\d{1,2} ?[-/.] ?\\d{1,2} ?[-/.] ?(?:\\d{4}|\\d{2})',
  '(?:19|20)\\d{6}',
  '[0-3]\\d[01]\\d(?:19|20)\\d{2}',
];
const MONTH = '\\p{L}[\\p{L}\\p{M}]{2,13}';
/** "of", "de", "m." (of the year, in Lithuanian). */
const SMALL = '(?:[ -]\\p{L}{1,4}\\.?)?';
const NAMED_MONTHS = [
  `\\d{1,2}(?:st|nd|rd|th|er|[.ºª°])?${SMALL}[ ./-]{0,2}${MONTH}[.,]{0,2}${SMALL}[ ./-]{0,2}\\d{4}`,
  `\\d{1,2} tháng \\d{1,2},? năm \\d{4}`,
  `(?<!\\p{L})${MONTH}\\.? \\d{1,2}(?:st|nd|rd|th)?,? \\d{4}`,
  `\\d{4}\\.?(?: \\p{L}{1,5}\\.?)? ${MONTH} \\d{1,2}`,
];
const DATE = new RegExp(`(?<!\\d|\\d[-/.])(?:${[...NAMED_MONTHS, ...NUMBERS].join('|')})(?!\\d|[-/]\\d)`, 'giu');

/** Any word may name the month: the word for the birth is what tells. */
const readBirth = (item: string, place: Place): string | undefined =>
  strengthAt(place, 'date_of_birth') && item.toLowerCase();

export const BIRTHS: readonly Form[] = [
  { pattern: DATE, digits: 1, reach: [35, 35], read: readBirth, cut: (item) => item },
];
