/** One way in which items of a kind are written. */

import type { Run } from './marks.ts';
import { strengthOf, type Word, type WordKind, wordsAfter, wordsBefore } from './words.ts';

/** Where a match stands. */
export interface Place {
  text: string;
  start: number;
  end: number;
  /** What the name of the text's field announces. */
  told: readonly Word[];
  /** Whether another item of the kind is right before it, as in a list. */
  follows: boolean;
}

/** One form of a kind. */
export interface Form {
  /**
   * Global. Its groups, joined, end the match and are the item; without a group the match is. Before an item that `at` reads: a group is
   * what the item has before the match.
   */
  pattern: RegExp;
  /** A match begins at a number with so many digits, dots and groups or more, … */
  digits?: number;
  dots?: number;
  groups?: number;
  /** … or at a word that has all signs, of `SIGNS`, of one of these. */
  signs?: readonly number[];
  /** Such a word has so many letters, digits, hyphens and dots in a row, or hexadecimal digits. */
  long?: number;
  hex?: number;
  /** Characters behind the word or the number that a match may have, and what it looks at. */
  behind?: number;
  /** What is around a match has it. Tested first, since most texts have none. */
  hint?: RegExp;
  /** Words beside the number, or the name of its field, must announce this. */
  word?: WordKind;
  /** Returns the normalised value, by which items are compared; `undefined` if the match is none. */
  read?(item: string, place: Place): string | undefined;
  /** In place of `read`: reads the item that begins at a place. */
  at?(place: Place): { length: number; value: string } | undefined;
  /** Returns the value of a whole text whose field tells what it is. */
  whole?(text: string, told: readonly Word[]): string | undefined;
  /** Returns the beginning of the item that is really one. Default: all of it. */
  cut?(item: string): string;
}

/** Returns whether words beside a place, or the name of its field, announce a kind, and how surely. */
export const strengthAt = ({ text, start, end, told }: Place, kind: WordKind): ReturnType<typeof strengthOf> =>
  strengthOf(told, kind) ?? strengthOf(wordsBefore(text, start), kind) ?? strengthOf(wordsAfter(text, end), kind);

const LETTERS_BEFORE = /(?:[A-Za-z]-)?[A-Za-z]{0,6}$/;
/** Shorter numbers, which are no dates, are announced by words before them. */
const MIN_DIGITS_BEFORE_WORDS = 5;

/** Returns what the words on both sides of a number announce. Letters before its first digit may be a part of it. */
export function wordsBeside(text: string, { start, end, digits }: Run): readonly Word[] {
  const letters = /\w|-/.test(text.charAt(start - 1))
    ? LETTERS_BEFORE.exec(text.slice(Math.max(0, start - 8), start))
    : null;
  return [
    ...wordsBefore(text, start),
    ...(letters ? wordsBefore(text, start - letters[0].length) : []),
    ...(digits >= MIN_DIGITS_BEFORE_WORDS ? wordsAfter(text, end) : []),
  ];
}
