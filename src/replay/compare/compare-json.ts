/** Tells whether two JSON values are equal, and if not, whether they have the same structure. */
import { isBlankText } from '../../captures/blank.ts';

export interface JsonComparison {
  equal: boolean;
  /** Whether keys, types and lengths of lists are the same, and no text has become empty. */
  sameStructure: boolean;
}

/** Deeper values are compared as text, to bound the recursion over untrusted input. */
const MAX_DEPTH = 64;
/** Relative difference up to which two numbers are equal: the same number, written or computed differently. */
const NUMBER_TOLERANCE = 1e-9;

const typeOf = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'list' : typeof value);

const hasLostText = (before: unknown, after: unknown): boolean =>
  typeof before === 'string' && typeof after === 'string' && isBlankText(after) && !isBlankText(before);

export function compareJson(before: unknown, after: unknown, depth = 0): JsonComparison {
  const type = typeOf(before);
  if (type !== typeOf(after) || hasLostText(before, after)) return { equal: false, sameStructure: false };
  if (depth >= MAX_DEPTH || (type !== 'object' && type !== 'list'))
    return { equal: areEqual(before, after), sameStructure: true };
  const [was, is] = [before as Record<string, unknown>, after as Record<string, unknown>];
  const keys = Object.keys(was);
  const sameStructure = keys.length === Object.keys(is).length && keys.every((key) => Object.hasOwn(is, key));
  const found = { equal: sameStructure, sameStructure };
  for (const key of keys) {
    if (!found.sameStructure) break;
    const inner = compareJson(was[key], is[key], depth + 1);
    found.equal &&= inner.equal;
    found.sameStructure = inner.sameStructure;
  }
  return found;
}

function areEqual(before: unknown, after: unknown): boolean {
  if (typeof before !== 'number' || typeof after !== 'number')
    return before === after || JSON.stringify(before) === JSON.stringify(after);
  return Math.abs(before - after) <= NUMBER_TOLERANCE * Math.max(Math.abs(before), Math.abs(after));
}
