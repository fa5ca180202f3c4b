/** Suggests the word that a person may have meant. */

import { PermanentError } from './errors.ts';

/** Number of letters to insert, remove, replace or swap with the next one to get from one word to the other. */
function editsBetween(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number): number => rows[row]?.[column] ?? 0;
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row[j] = Math.min(at(i - 1, j) + 1, (row[j - 1] ?? 0) + 1, replaced);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        row[j] = Math.min(row[j] ?? 0, at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.length, b.length);
}

/** Longer words are no misspelling of a name. */
const MAX_CHARS = 100;

/**
 * Returns the allowed word that is most similar to the given word, ignoring case. Returns `undefined` if no word is
 * similar.
 *
 * @param most maximum number of edits. Default: two fifths of the longer word
 */
export function nearest(given: string, allowed: readonly string[], most?: number): string | undefined {
  if (given.length > MAX_CHARS) return undefined;
  const edits = allowed.map((word) => editsBetween(given.toLowerCase(), word.toLowerCase()));
  const least = Math.min(...edits);
  const found = allowed[edits.indexOf(least)];
  return found !== undefined && least <= (most ?? Math.max(given.length, found.length) * 0.4) ? found : undefined;
}

/** @throws PermanentError `UnknownName` with the nearest name */
export function checkNames(
  what: string,
  given: readonly string[] | undefined,
  all: readonly (string | { name: string })[],
): void {
  const known = all.map((one) => (typeof one === 'string' ? one : one.name));
  for (const name of given ?? []) {
    if (known.includes(name)) continue;
    const meant = nearest(name, known);
    const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
    const facts = { got: name, expected: `one of ${[...new Set(known)].toSorted().join(', ')}` };
    throw new PermanentError('UnknownName', `There is no ${what} of this name${hint}`, facts);
  }
}
