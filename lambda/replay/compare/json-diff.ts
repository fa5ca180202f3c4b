/** Where two JSON values differ. */

export interface JsonDifference {
  /** `$.choices[0].score` */
  path: string;
  kind: 'missing' | 'added' | 'type' | 'value';
  before?: unknown;
  after?: unknown;
}

export interface JsonComparison {
  differences: JsonDifference[];
  /** There are more than are listed. */
  more: boolean;
  /** Keys, types and lengths of lists are the same. */
  sameStructure: boolean;
  /** Greatest relative difference of two numbers at the same place. */
  maxNumberChange: number;
}

const MAX_LISTED = 20;
/** Deeper values are compared as text: a recursion over what others wrote has a bound. */
const MAX_DEPTH = 64;
/** Numbers this close are the same number written or computed in another way. */
const NUMBER_TOLERANCE = 1e-9;

const typeOf = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'list' : typeof value);

const shown = (value: unknown): unknown => {
  const text = JSON.stringify(value) ?? 'undefined';
  return text.length > 200 ? `${text.slice(0, 200)} …` : value;
};

const step = (path: string, key: string | number): string =>
  typeof key === 'number'
    ? `${path}[${key}]`
    : /^[A-Za-z_]\w*$/.test(key)
      ? `${path}.${key}`
      : `${path}[${JSON.stringify(key)}]`;

export function compareJson(before: unknown, after: unknown): JsonComparison {
  const comparison: JsonComparison = { differences: [], more: false, sameStructure: true, maxNumberChange: 0 };
  walk(before, after, '$', 0, comparison);
  return comparison;
}

function note(comparison: JsonComparison, difference: JsonDifference): void {
  if (difference.kind !== 'value') comparison.sameStructure = false;
  if (comparison.differences.length >= MAX_LISTED) comparison.more = true;
  else comparison.differences.push(difference);
}

function walk(before: unknown, after: unknown, path: string, depth: number, comparison: JsonComparison): void {
  const type = typeOf(before);
  if (type !== typeOf(after)) {
    note(comparison, { path, kind: 'type', before: shown(before), after: shown(after) });
    return;
  }
  if (depth >= MAX_DEPTH || (type !== 'object' && type !== 'list')) {
    compareLeaves(before, after, path, comparison);
    return;
  }
  const left = before as Record<string, unknown>;
  const right = after as Record<string, unknown>;
  const key = (name: string): string | number => (type === 'list' ? Number(name) : name);
  for (const name of Object.keys(left)) {
    if (Object.hasOwn(right, name)) walk(left[name], right[name], step(path, key(name)), depth + 1, comparison);
    else note(comparison, { path: step(path, key(name)), kind: 'missing', before: shown(left[name]) });
  }
  for (const name of Object.keys(right)) {
    if (!Object.hasOwn(left, name))
      note(comparison, { path: step(path, key(name)), kind: 'added', after: shown(right[name]) });
  }
}

function compareLeaves(before: unknown, after: unknown, path: string, comparison: JsonComparison): void {
  if (typeof before === 'number' && typeof after === 'number') {
    const scale = Math.max(Math.abs(before), Math.abs(after));
    const change = scale === 0 ? 0 : Math.abs(before - after) / scale;
    comparison.maxNumberChange = Math.max(comparison.maxNumberChange, change);
    if (change <= NUMBER_TOLERANCE) return;
  } else if (before === after || JSON.stringify(before) === JSON.stringify(after)) {
    return;
  }
  note(comparison, { path, kind: 'value', before: shown(before), after: shown(after) });
}
