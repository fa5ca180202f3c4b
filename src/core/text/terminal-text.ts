/** Text for terminals of any width: foreign text on one line, broken lines, tables, and durations. */

import { whole } from './figure-text.ts';

/**
 * Puts foreign text on one line, and removes characters that a terminal would interpret: control characters, and
 * characters that reverse the direction of the following text.
 *
 * @example
 *     singleLine('first\nsecond')   // 'first second'
 */
export const singleLine = (text: string): string => text.replace(/[\s\p{Cc}\u202a-\u202e\u2066-\u2069]+/gu, ' ');

/** Characters of a request's end, where its question is: before it, many requests have the same text. */
export const TAIL_CHARS = 80;

/** Returns the beginning of foreign text, on one line. @param tail characters of its end that are kept too */
export function excerpt(text: string, most: number, tail = 0): string {
  const line = singleLine(text).trim();
  return line.length > most ? `${line.slice(0, most - tail)}…${line.slice(line.length - tail)}` : line;
}

/** Returns the beginning and the end of a request, on one line. @param most more than `TAIL_CHARS` */
export const bothEnds = (request: string, most: number): string => excerpt(request, most, TAIL_CHARS);

/** Lists counts by name, most frequent first, such as `throttled 3, timeout 1`. @param most maximum number of names */
export function namedCounts(counts: Readonly<Record<string, number>> = {}, most = Number.POSITIVE_INFINITY): string {
  const named = Object.entries(counts).filter(([, count]) => count !== 0);
  const first = named.toSorted(([, a], [, b]) => b - a).slice(0, most);
  return first.map(([name, count]) => `${singleLine(name)} ${whole(count)}`).join(', ');
}

const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069][ \p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]*/gu;

/** Replaces the same by a space, and keeps the spaces that are there otherwise: they may align a line. */
export const printable = (text: string): string =>
  text.replace(UNPRINTABLE, (_, at: number) => (text[at - 1] === ' ' ? '' : ' '));

/** The text of an option, by its flag: `--dry-run` of `dryRun`. */
export const flagText = (flag: string): string => `--${flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

const DEFAULT_COLUMNS = 80;

/** Returns the width of a terminal. Some report 0 columns. */
export const columnsOf = (output: NodeJS.WriteStream): number => output.columns || DEFAULT_COLUMNS;

/**
 * Breaks a line between words, so that no terminal breaks it within a word. A word longer than a line stays whole.
 *
 * @param width in columns; `Infinity` for no limit
 * @param hanging additional columns of indentation for further lines
 */
export function wrapped(line: string, width: number, hanging = 2): string[] {
  const indent = `${/^ */.exec(line)?.[0] ?? ''}${' '.repeat(hanging)}`;
  const lines: string[] = [];
  let rest = line;
  while (rest.length > width) {
    const start = rest.length - rest.trimStart().length;
    const within = rest.lastIndexOf(' ', width);
    const at = within > start ? within : rest.indexOf(' ', start);
    if (at < 0) break;
    lines.push(rest.slice(0, at));
    rest = `${indent}${rest.slice(at + 1)}`;
  }
  return [...lines, rest];
}

/** Styles a text for a terminal, or returns it unchanged. */
export type Style = (style: 'bold' | 'dim' | 'red' | 'green', text: string) => string;
export const PLAIN: Style = (_, text) => text;

export interface TextOptions {
  /** Columns. */
  width: number;
  style: Style;
}

/** A pipe or a file. */
export const PIPE: TextOptions = { width: Number.POSITIVE_INFINITY, style: PLAIN };

const UNITS: readonly [seconds: number, name: string][] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
];

/** Formats a duration as `42.0 s`, `2 h 36 min` or `274 d 8 h`. */
export function durationText(seconds: number): string {
  const first = UNITS.findIndex(([unit]) => seconds >= unit);
  if (first === -1 || seconds < 60) return `${seconds.toFixed(1)} s`;
  const [larger, smaller] = UNITS.slice(first, first + 2) as [(typeof UNITS)[number], (typeof UNITS)[number]];
  const whole = Math.floor(seconds / larger[0]);
  const rest = Math.floor((seconds - whole * larger[0]) / smaller[0]);
  return `${whole} ${larger[1]}${rest > 0 ? ` ${rest} ${smaller[1]}` : ''}`;
}
