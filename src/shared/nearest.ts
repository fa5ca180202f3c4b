/** Suggests what a person may have meant. */

/** Number of letters to insert, remove or replace to get from one word to the other (Levenshtein). */
function editsBetween(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (const [i, letter] of [...a].entries()) {
    const row = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const replaced = (above[j] ?? 0) + (letter === b[j] ? 0 : 1);
      row.push(Math.min(replaced, (above[j + 1] ?? 0) + 1, (row[j] ?? 0) + 1));
    }
    above = row;
  }
  return above.at(-1) ?? 0;
}

/** Longer words are no misspelling of a name. */
const MAX_CHARS = 100;

/** Returns the allowed word that is most like the given one; `undefined` if none is like it. Case does not count. */
export function nearest(given: string, allowed: readonly string[]): string | undefined {
  if (given.length > MAX_CHARS) return undefined;
  const edits = allowed.map((word) => editsBetween(given.toLowerCase(), word.toLowerCase()));
  const least = Math.min(...edits);
  const found = allowed[edits.indexOf(least)];
  return found !== undefined && least <= Math.max(given.length, found.length) * 0.4 ? found : undefined;
}
