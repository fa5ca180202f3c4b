/**
 * Converts JSON values to a form that MLflow can store and read. Other values become text, and the changes are noted. A
 * single value that MLflow cannot read makes a whole page of traces fail.
 */
import { exactNumber, isExactNumber, isObject, toJson } from '../json.ts';
import { cleanText } from './text.ts';

/** The changes for storage, as text. */
export const CHANGES = {
  characters: 'NUL characters and unpaired surrogates are shown as U+FFFD',
  numbers: 'numbers beyond 64 bits are shown as text',
  nesting: 'values that are nested too deep are shown as JSON text',
} as const;
type Change = keyof typeof CHANGES;

/**
 * MLflow returns spans as protobuf, whose readers stop at 100 levels. An object uses three levels (value, list of
 * pairs, pair), a list two (value, list). MLflow 3.17.2 reads objects nested 31 deep and lists nested 47 deep, which
 * are 93 and 94 levels.
 */
const MAX_LEVELS = 90;
const OBJECT_LEVELS = 3;
const LIST_LEVELS = 2;

/** MLflow's numbers are doubles and 64-bit integers. */
const MAX_INT64 = 2n ** 63n - 1n;
const MIN_INT64 = -(2n ** 63n);
const BEYOND_INT64 = 2 ** 63;
const isWhole = (literal: string): boolean => /^-?\d+$/.test(literal);

/** Makes values storable and collects the changes. Returns the same object for a value that needs no change. */
export class Storer {
  readonly changes = new Set<Change>();

  /** @param levels that the value may have */
  store(value: unknown, levels = MAX_LEVELS): unknown {
    if (typeof value === 'string') return this.#text(value);
    if (typeof value === 'number') return this.#number(value);
    if (typeof value !== 'object' || value === null) return value;
    if (isExactNumber(value)) return this.#exactNumber(value);
    const needed = Array.isArray(value) ? LIST_LEVELS : OBJECT_LEVELS;
    if (levels < needed) {
      this.changes.add('nesting');
      return this.#text(toJson(value) ?? '[nested too deep to be written; see the line in S3]');
    }
    if (Array.isArray(value)) return this.#list(value, levels - needed);
    return isObject(value) ? this.#object(value, levels - needed) : value;
  }

  #text(text: string): string {
    const clean = cleanText(text);
    if (clean !== text) this.changes.add('characters');
    return clean;
  }

  #list(list: unknown[], levels: number): unknown[] {
    let stored: unknown[] | undefined;
    for (let index = 0; index < list.length; index += 1) {
      const item = this.store(list[index], levels);
      if (stored === undefined && item !== list[index]) stored = list.slice(0, index);
      stored?.push(item);
    }
    return stored ?? list;
  }

  #object(object: Record<string, unknown>, levels: number): Record<string, unknown> {
    let changed = false;
    const entries = Object.entries(object);
    for (const entry of entries) {
      const [name, value] = entry;
      entry[0] = this.#text(name);
      entry[1] = this.store(value, levels);
      changed ||= entry[0] !== name || entry[1] !== value;
    }
    return changed ? Object.fromEntries(entries) : object;
  }

  /** Writes large doubles with an exponent. JSON would write whole doubles up to 10^21 as digits, too long for an integer. */
  #number(value: number): unknown {
    if (Math.abs(value) < BEYOND_INT64) return value;
    if (!Number.isFinite(value)) {
      this.changes.add('numbers');
      return String(value);
    }
    return exactNumber(value.toExponential());
  }

  #exactNumber(value: { rawJSON: string }): unknown {
    const literal = value.rawJSON;
    const fits = isWhole(literal)
      ? BigInt(literal) >= MIN_INT64 && BigInt(literal) <= MAX_INT64
      : Number.isFinite(Number(literal)) && Math.abs(Number(literal)) < BEYOND_INT64;
    if (fits) return value;
    this.changes.add('numbers');
    return literal;
  }
}
