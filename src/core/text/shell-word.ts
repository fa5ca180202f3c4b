/** Words of commands to copy. */

/** Puts a word in quotes if a shell would not take it as it is. */
export const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
