/** Finds the first usable result among several attempts. */

/** Returns the first result that is defined. Later items are not tried. */
export function firstOf<T, R>(items: Iterable<T>, read: (item: T) => R | undefined): R | undefined {
  for (const item of items) {
    const found = read(item);
    if (found !== undefined) return found;
  }
  return undefined;
}
