/** Dates of birth: dates that a word before or behind them, or the name of their field, announces. */

import { type Form, type Place, strengthAt } from './form.ts';

/** Any word may name the month, because the word for the birth must stand beside the date. */
const MONTH = '\\p{L}[\\p{L}\\p{M}]{2,13}';
/** "of", "de", "m." (of the year, in Lithuanian). */
const SMALL = '(?:[ -]\\p{L}{1,4}\\.?)?';
const BEFORE_YEAR = [
  '(?<!\\d)\\d{1,2} tháng \\d{1,2},? năm',
  `(?<!\\d)\\d{1,2}(?:st|nd|rd|th|er|[.ºª°])?${SMALL}[ ./-]{0,2}${MONTH}[.,]{0,2}${SMALL}`,
  `(?<!\\p{L})${MONTH}\\.? \\d{1,2}(?:st|nd|rd|th)?,?`,
];
const YEAR_FIRST = [
  `\\d{4}\\. gada \\d{1,2}\\. ${MONTH}`,
  `\\d{4}\\.?(?: \\p{L}{1,5}\\.?)? ${MONTH} \\d{1,2}`,
  // In the years of an era, a name of the era stands before it.
  '\\d{1,4} ?[년年] ?\\d{1,2} ?[월月] ?\\d{1,2} ?[일日]?',
];
/** Begins with the year, also of the Persian, Thai and Islamic calendars, and looks behind it for the day and the month. */
const DATE_IN_WORDS = new RegExp(
  `(?=(?:1[3-9]|2[0-5])\\d\\d(?!\\d|[-/.]\\d)|\\d{1,3}年)(?<!\\d|\\d[-/.])(?:(?<=((?:${BEFORE_YEAR.join('|')})[ ./-]{0,2}))(\\d{4})|(${YEAR_FIRST.join('|')}))(?!\\d)`,
  'gu',
);
const DATE =
  /(?<!\d|\d[-/.])(?:\d{4} ?[-/.] ?\d{1,2} ?[-/.] ?\d{1,2}|\d{1,2} ?[-/.] ?\d{1,2} ?[-/.] ?(?:\d{4}|\d{2})|(?:19|20)\d{6}|[0-3]\d[01]\d(?:19|20)\d\d)(?!\d|[-/]\d)/g;

const readBirth = (item: string, place: Place): string | undefined =>
  strengthAt(place, 'date_of_birth') && item.toLowerCase();

export const BIRTHS: readonly Form[] = [
  { pattern: DATE_IN_WORDS, digits: 1, behind: 30, read: readBirth },
  { pattern: DATE, digits: 5, word: 'date_of_birth', read: readBirth },
];
