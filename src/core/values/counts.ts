/** Counts by name, and their sums. */

/** Counts by name that start empty. They have no prototype: a guideline, a value or an error may be named `constructor`. */
export const noCounts = (): Record<string, number> => Object.create(null);

/** Adds counts to a total, name by name. */
export function addCounts<Name extends string>(total: Record<Name, number>, more: Partial<Record<Name, number>>): void {
  // A total that was stored has a prototype again.
  const known = (name: Name): number => (Object.hasOwn(total, name) ? (total[name] ?? 0) : 0);
  for (const name of Object.keys(more) as Name[]) total[name] = known(name) + (more[name] ?? 0);
}

/** Counts items by the text that `textOf` returns, in the order of their first occurrence. */
export const countBy = <T>(items: readonly T[], textOf: (item: T) => string): Record<string, number> =>
  Object.fromEntries([...Map.groupBy(items, textOf)].map(([text, group]) => [text, group.length]));
