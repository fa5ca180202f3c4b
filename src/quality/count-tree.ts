/** Numbers by names, nested to any depth: how counts are added up without knowing their fields. */

export interface CountTree {
  [name: string]: number | CountTree | null | undefined;
}

/** An empty tree. It has no prototype: a variant or a value may be named `constructor`. */
export const emptyTree = <T extends object = CountTree>(): T => Object.create(null) as T;

/** The names in a tree have no meaning here; an interface has no index signature by itself. */
const asTree = (tree: object): CountTree => tree as CountTree;

/** Adds every number of `more` to `total`, `times` times. @param total made by `emptyTree`; `more` may be parsed JSON */
export function addTree(total: object, more: object, times = 1): void {
  const [sums, terms] = [asTree(total), asTree(more)];
  for (const name of Object.keys(terms)) {
    const term = terms[name];
    const sum = sums[name];
    if (typeof term === 'number') sums[name] = (typeof sum === 'number' ? sum : 0) + times * term;
    else if (term) addTree(branch(sums, name), term, times);
  }
}

/** Returns the tree of that name in a tree that `emptyTree` has made; an empty one if there was none. */
export function branch(tree: object, name: string): CountTree {
  const branches = asTree(tree);
  const found = branches[name];
  if (typeof found === 'object' && found !== null) return found;
  const made = emptyTree();
  branches[name] = made;
  return made;
}

/** Replaces every number of `total` by that of `other` which is farther from 0. Both know a part of the same counts. */
export function takeFarthest(total: object, other: object): void {
  const [known, others] = [asTree(total), asTree(other)];
  for (const name of Object.keys(others)) {
    const one = others[name];
    if (typeof one !== 'number') takeFarthest(branch(known, name), one ?? {});
    else if (Math.abs(one) > Math.abs(Number(known[name] ?? 0))) known[name] = one;
  }
}
