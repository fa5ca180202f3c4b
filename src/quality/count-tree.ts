/** Numbers by names, nested to any depth: how counts are added up without knowing their fields. */

interface CountTree {
  [name: string]: number | CountTree | null | undefined;
}

/** The names in a tree have no meaning here; an interface has no index signature by itself. */
const asTree = (tree: object): CountTree => tree as CountTree;

/** A variant or a value may be named `constructor`. One that is named like the prototype is left out. */
const PROTOTYPE = '__proto__';

/** Numbers that may be added to those of a tree. */
type Terms<T> = { [K in keyof T]?: NonNullable<T[K]> extends number ? T[K] : Terms<NonNullable<T[K]>> | null };

/** Adds every number of `more` to `total`. Either may be parsed JSON. */
export function addTree<T extends object>(total: T, more: Terms<NoInfer<T>>): void {
  const [sums, terms] = [asTree(total), asTree(more)];
  for (const name of Object.keys(terms)) {
    if (name === PROTOTYPE) continue;
    // No other member of every object is a number.
    const [term, sum] = [terms[name], sums[name]];
    if (typeof term === 'number') sums[name] = (typeof sum === 'number' ? sum : 0) + term;
    else if (term) addTree(branch(sums, name), term);
  }
}

/** Returns the subtree of that name. Adds an empty subtree if there is none. */
export function branch(tree: object, name: string): CountTree {
  if (name === PROTOTYPE) return {};
  // No other member of every object is an object.
  const found = asTree(tree)[name];
  if (typeof found === 'object' && found !== null) return found;
  const made: CountTree = {};
  asTree(tree)[name] = made;
  return made;
}

/** Adds to the number of that name in a tree. */
export function addCount(tree: object, name: string, count = 1): void {
  if (name === PROTOTYPE) return;
  const before = asTree(tree)[name];
  asTree(tree)[name] = (typeof before === 'number' ? before : 0) + count;
}

/**
 * Replaces each number of `total` by the number of `other` if that is farther from 0. Both contain parts of the same
 * counts.
 */
export function maxByMagnitude(total: object, other: object): void {
  const [known, others] = [asTree(total), asTree(other)];
  for (const name of Object.keys(others)) {
    const [one, before] = [others[name], known[name]];
    if (typeof one !== 'number') maxByMagnitude(branch(known, name), one ?? {});
    else if (Math.abs(one) > Math.abs(typeof before === 'number' ? before : 0)) known[name] = one;
  }
}
