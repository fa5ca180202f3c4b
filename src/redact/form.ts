/** One way in which items of a kind are written. */

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
  /** A match begins in a number with so many digits or more. */
  digits?: number;
  /** A match begins in a word that has all of these, of `SIGNS`. Without it and `digits`, it may begin anywhere. */
  signs?: number;
  /** Such a word has so many letters, digits and hyphens in a row. */
  long?: number;
  /** A text without it has no match. Tested first, since most texts have none. */
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

/** Returns what the words on both sides of a number announce. Letters before its first digit may be a part of it. */
export function wordsBeside(text: string, { start, end }: Pick<Place, 'start' | 'end'>): readonly Word[] {
  const letters = LETTERS_BEFORE.exec(text.slice(Math.max(0, start - 8), start))?.[0] ?? '';
  const before = letters === '' ? [] : wordsBefore(text, start - letters.length);
  return [...before, ...wordsBefore(text, start), ...wordsAfter(text, end)];
}
