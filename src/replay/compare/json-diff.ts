/** Finds the differences of two JSON values. */
import { isBlankText } from '../reply/blank.ts';

interface JsonDifference {
  /** For example `$.choices[0].score`. */
  path: string;
  kind: 'missing' | 'added' | 'type' | 'value';
  before?: unknown;
  after?: unknown;
}

export interface JsonComparison {
  differences: JsonDifference[];
  /** There are more differences than the list has. */
  more: boolean;
  /** Whether keys, types and lengths of lists are the same, and no text has become empty. */
  sameStructure: boolean;
  /** Greatest relative difference of two numbers at the same place. */
  maxNumberChange: number;
}

const MAX_LISTED = 20;
/** Deeper values are compared as text, to bound the recursion over untrusted input. */
const MAX_DEPTH = 64;
/** Relative difference up to which two numbers are equal: the same number, written or computed differently. */
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

/** Keys from the outside in. They are formatted only for a listed difference. */
type Path = (string | number)[];

export function diffJson(before: unknown, after: unknown): JsonComparison {
  const comparison: JsonComparison = { differences: [], more: false, sameStructure: true, maxNumberChange: 0 };
  walk(before, after, [], comparison);
  return comparison;
}

function note(
  comparison: JsonComparison,
  kind: JsonDifference['kind'],
  path: Path,
  values: [unknown?, unknown?],
): void {
  if (kind !== 'value') comparison.sameStructure = false;
  if (comparison.differences.length >= MAX_LISTED) {
    comparison.more = true;
    return;
  }
  const [before, after] = values;
  comparison.differences.push({
    path: path.reduce<string>(step, '$'),
    kind,
    ...(kind === 'added' ? {} : { before: shown(before) }),
    ...(kind === 'missing' ? {} : { after: shown(after) }),
  });
}

const hasLostText = (before: unknown, after: unknown): boolean =>
  typeof before === 'string' && typeof after === 'string' && isBlankText(after) && !isBlankText(before);

function walk(before: unknown, after: unknown, path: Path, comparison: JsonComparison): void {
  const type = typeOf(before);
  if (type !== typeOf(after) || hasLostText(before, after)) note(comparison, 'type', path, [before, after]);
  else if (path.length >= MAX_DEPTH || (type !== 'object' && type !== 'list')) {
    if (!areEqual(before, after, comparison)) note(comparison, 'value', path, [before, after]);
  } else if (type === 'list') walkList(before as unknown[], after as unknown[], path, comparison);
  else walkObject(before as Record<string, unknown>, after as Record<string, unknown>, path, comparison);
}

function walkList(before: unknown[], after: unknown[], path: Path, comparison: JsonComparison): void {
  for (let i = 0; i < Math.max(before.length, after.length); i++) {
    path.push(i);
    if (i >= after.length) note(comparison, 'missing', path, [before[i]]);
    else if (i >= before.length) note(comparison, 'added', path, [undefined, after[i]]);
    else walk(before[i], after[i], path, comparison);
    path.pop();
  }
}

function walkObject(
  before: Record<string, unknown>,
  after: Record<string, unknown>,
  path: Path,
  comparison: JsonComparison,
) {
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    path.push(name);
    if (!Object.hasOwn(after, name)) note(comparison, 'missing', path, [before[name]]);
    else if (!Object.hasOwn(before, name)) note(comparison, 'added', path, [undefined, after[name]]);
    else walk(before[name], after[name], path, comparison);
    path.pop();
  }
}

function areEqual(before: unknown, after: unknown, comparison: JsonComparison): boolean {
  if (typeof before !== 'number' || typeof after !== 'number')
    return before === after || JSON.stringify(before) === JSON.stringify(after);
  const scale = Math.max(Math.abs(before), Math.abs(after));
  const change = scale === 0 ? 0 : Math.abs(before - after) / scale;
  comparison.maxNumberChange = Math.max(comparison.maxNumberChange, change);
  return change <= NUMBER_TOLERANCE;
}
