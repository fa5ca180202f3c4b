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
  /** Global. Its groups, joined, end the match and are the item; without a group the match is. */
  pattern: RegExp;
  /** A text without it has no match. Tested first, since most texts have none. Global if the form has a `reach`. */
  hint?: RegExp;
  /** In place of a hint: how many digits with separators between them a match is in. One pass finds them for all forms. */
  digits?: [least: number, most?: number];
  /**
   * A match begins at most so many characters before a hint, and ends, with the character behind it, so many after its beginning. Of
   * digits: what is read before and behind them, and how many characters before them a match begins at most.
   */
  reach?: [before: number, after: number, lead?: number];
  /** Returns the normalised value, by which items are compared; `undefined` if the match is none. */
  read?(item: string, place: Place): string | undefined;
  /** In place of `read`: reads the item that begins where a match ends, or a whole text whose field tells what it is. */
  at?(place: Place): { length: number; value: string } | undefined;
  /** Returns the beginning of the item that is really one. Default: all of it. */
  cut?(item: string): string;
}

/** Returns whether words beside a place, or the name of its field, announce a kind, and how surely. */
export const strengthAt = ({ text, start, end, told }: Place, kind: WordKind): ReturnType<typeof strengthOf> =>
  strengthOf(told, kind) ?? strengthOf(wordsBefore(text, start), kind) ?? strengthOf(wordsAfter(text, end), kind);
