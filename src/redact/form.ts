/** One way in which items of a kind are written. */

/** One form of a kind. */
export interface Form {
  /** Global. Its groups, joined, end the match and are the item; without a group the match is. */
  pattern: RegExp;
  /** A text without it has no match. Tested first, since most texts have none. Global if the form has a `reach`. */
  hint: RegExp;
  /** A match begins at most so many characters before a hint, and ends, with the character behind it, so many after its beginning. */
  reach?: [before: number, after: number];
  /** Returns the normalised value, by which items are compared; `undefined` if the match is none. */
  read(item: string): string | undefined;
  /** Returns the beginning of the item that is really one. Default: all of it. */
  cut?(item: string): string;
}
