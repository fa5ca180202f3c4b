/** The description of a written form, by which the items of a kind are found. */

import type { Run } from './marks.ts';
import { strengthOf, type Word, type WordKind, wordsAfter, wordsBefore } from './words.ts';

/** The place of a match. */
export interface Place {
  text: string;
  start: number;
  end: number;
  /** Announcements in the name of the text's field. */
  told: readonly Word[];
  /** Whether another item of the kind is right before it, as in a list. */
  follows: boolean;
}

/** One form of a kind. */
export interface Form {
  /**
   * A global pattern. The item is the joined groups, which must end the match, or the whole match if there is no group. If `at` reads the
   * item, the item begins at the end of the match; if there is a group, before the match, with the characters of the group.
   */
  pattern: RegExp;
  /** The least digits, dots and groups of a number at which a match begins, … */
  digits?: number;
  dots?: number;
  groups?: number;
  /** … or the signs of a word at which a match begins: all signs of any of these sets of `SIGNS`. */
  signs?: readonly number[];
  /** The least letters, digits, hyphens and dots in a row of such a word, and the least hexadecimal digits in a row. */
  long?: number;
  hex?: number;
  /** Maximum number of characters behind the word or the number that the pattern reads. */
  behind?: number;
  /** A pattern that matches near every item. It is tested first, because it rules out most texts. */
  hint?: RegExp;
  /** The kind that words beside the number, or the name of its field, must announce. */
  word?: WordKind;
  /** Returns the normalised value, by which items are compared; `undefined` if the match is not an item. */
  read?(item: string, place: Place): string | undefined;
  /** Replaces `read`: returns the item that begins at a place. */
  at?(place: Place): { length: number; value: string } | undefined;
  /** Returns the value of a whole text that the name of its field announces. */
  whole?(text: string, told: readonly Word[]): string | undefined;
  /** Returns the part of the match, from its beginning, that is the item. Default: the whole match. */
  cut?(item: string): string;
}

/** Returns how surely the name of the field, or words beside a place, announce a kind; `undefined` if they do not. */
export const strengthAt = ({ text, start, end, told }: Place, kind: WordKind): ReturnType<typeof strengthOf> =>
  strengthOf(told, kind) ?? strengthOf(wordsBefore(text, start), kind) ?? strengthOf(wordsAfter(text, end), kind);

const LETTERS_BEFORE = /(?:[A-Za-z]-)?[A-Za-z]{0,6}$/;
/** Words behind a shorter number do not announce it, since it is not a date. */
const MIN_DIGITS_BEFORE_WORDS = 5;

/** Returns the announcements of the words on both sides of a number. Letters right before the first digit may be part of the number. */
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
