/**
 * Parses JSON as payloads really contain it. `JSON.parse` silently rounds long numbers, keeps the last of two equal keys,
 * and accepts nesting that later readers cannot handle. Python writes `NaN`. All of these are detected and noted here.
 */

import { trimEndOf } from '../core/text/text-edges.ts';
import { firstPassing } from '../core/values/search.ts';
import type { Scale } from './weight.ts';

export type JsonObject = Record<string, unknown>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isExactNumber(value);

/**
 * Maximum nesting that is decoded. MLflow's server walks a payload recursively, a few Python frames per level with a
 * limit of 1,000 frames: 200 levels × 3 frames = 600.
 */
const MAX_JSON_DEPTH = 200;

type ParsedJson =
  | { ok: true; value: unknown; notes: string[]; duplicateKeys: boolean }
  | { ok: false; problem: string; tooDeep: boolean };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Returns the index of the quote that ends the string beginning at `from`, or -1. */
export function endOfString(text: string, from: number): number {
  let end = text.indexOf('"', from);
  while (end !== -1) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH && end - 1 - slashes >= from) slashes += 1;
    if (slashes % 2 === 0) return end;
    end = text.indexOf('"', end + 1);
  }
  return -1;
}

/** Digits of a whole number that a double always represents. */
const SAFE_INTEGER_DIGITS = 15;
/** Maximum digits of a written double. A number with more digits is more precise than a double. */
const MAX_DOUBLE_DIGITS = 17;
/** An exponent of three digits may be out of range. */
const SAFE_EXPONENT_DIGITS = 2;

/**
 * Counts in one pass over the characters, without parsing them. `values`: lists, objects and their items; `longNumber`: there may be a
 * number that a double cannot represent.
 */
function takeCensus(text: string) {
  const census = { depth: 0, keys: 0, values: 1, longNumber: false };
  let depth = 0;
  let digits = 0;
  let part: 'whole' | 'fraction' | 'exponent' = 'whole';
  /** A minus was found, followed only by zeros so far. */
  let minus = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code >= 0x30 && code <= 0x39) {
      // Leading zeros do not count.
      if (digits > 0 || code !== 0x30) digits += 1;
      const most =
        part === 'whole' ? SAFE_INTEGER_DIGITS : part === 'fraction' ? MAX_DOUBLE_DIGITS : SAFE_EXPONENT_DIGITS;
      // Whole digits are checked where they end; see below.
      if (digits > most && part !== 'whole') census.longNumber = true;
      continue;
    }
    if (code === 0x2e) {
      if (part === 'whole' && digits > SAFE_INTEGER_DIGITS) census.longNumber = true;
      part = 'fraction';
      continue;
    }
    if ((part === 'whole' && digits > SAFE_INTEGER_DIGITS) || (minus && digits === 0)) census.longNumber = true;
    minus = code === 0x2d && part !== 'exponent';
    if (code === 0x45 || code === 0x65) {
      part = 'exponent';
      digits = 0;
      continue;
    }
    // The sign of an exponent.
    if ((code === 0x2b || code === 0x2d) && part === 'exponent') continue;
    part = 'whole';
    digits = 0;
    if (code === QUOTE) {
      const end = endOfString(text, at + 1);
      if (end === -1) return census;
      at = end;
    } else if (code === 0x2c) census.values += 1;
    else if (code === 0x3a) census.keys += 1;
    else if (code === 0x5b || code === 0x7b) {
      census.values += 1;
      depth += 1;
      if (depth > census.depth) census.depth = depth;
    } else if (code === 0x5d || code === 0x7d) depth -= 1;
  }
  if (digits > SAFE_INTEGER_DIGITS || (minus && digits === 0)) census.longNumber = true;
  return census;
}

function countKeys(value: unknown): number {
  if (Array.isArray(value)) {
    let keys = 0;
    for (const item of value) if (typeof item === 'object') keys += countKeys(item);
    return keys;
  }
  if (!isObject(value)) return 0;
  const inner = Object.values(value);
  let keys = inner.length;
  for (const item of inner) if (typeof item === 'object') keys += countKeys(item);
  return keys;
}

/**
 * Parses a document's text.
 *
 * @param maxDepth maximum nesting. Beyond `MAX_JSON_DEPTH` numbers are parsed as by `JSON.parse`.
 * @param scale adds up the memory of the values before they are allocated.
 * @throws TooHeavy from the scale; no other error.
 */
export function parseJson(text: string, maxDepth = MAX_JSON_DEPTH, scale?: Scale): ParsedJson {
  const source = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  const census = takeCensus(source);
  scale?.values(census.values);
  const isDeep = census.depth > MAX_JSON_DEPTH;
  if (census.depth > maxDepth) {
    const problem = `it is nested ${census.depth} levels deep, and the limit is ${maxDepth}`;
    return { ok: false, problem, tooDeep: true };
  }
  const notes: string[] = [];
  const parse = (json: string): unknown =>
    census.longNumber && !isDeep ? parseExactly(json, notes) : JSON.parse(json);
  let value: unknown;
  try {
    value = parse(source);
  } catch (error) {
    const repaired = withQuotedNonNumbers(source);
    if (repaired === undefined) return { ok: false, problem: describeSyntaxError(error, source), tooDeep: false };
    try {
      value = parse(repaired);
    } catch {
      return { ok: false, problem: describeSyntaxError(error, source), tooDeep: false };
    }
    notes.push('NaN and Infinity, which JSON does not have, are kept as text');
  }
  const duplicateKeys = !isDeep && census.keys > 0 && countKeys(value) < census.keys;
  if (duplicateKeys) notes.push('an object has the same key twice; the last one is used');
  return { ok: true, value, notes, duplicateKeys };
}

/** V8's messages about an unexpected token quote it with its surroundings, and name no position. */
const isQuoted = (error: unknown): boolean => error instanceof Error && /^(?:Unexpected token|")/.test(error.message);

/** Describes the error and its position, without quoting the text. */
function describeSyntaxError(error: unknown, text: string): string {
  if (!isQuoted(error)) return `it is not JSON (${error instanceof Error ? error.message : 'unknown'})`;
  const position = positionOfFault(text);
  return `it is not JSON (unexpected character${position === undefined ? '' : ` at position ${position}`})`;
}

/** Characters within which the position of a fault is looked for, in 16 steps. */
const SEARCHED_CHARS = 65_536;

function positionOfFault(text: string): number | undefined {
  const hasFault = (end: number): boolean => {
    try {
      JSON.parse(text.slice(0, end));
      return false;
    } catch (error) {
      return isQuoted(error);
    }
  };
  const most = Math.min(text.length, SEARCHED_CHARS);
  return hasFault(most) ? firstPassing(0, most, hasFault) - 1 : undefined;
}

// -------------------------------------------------------------------------------------------------- exact numbers

/** ECMAScript's source text access, in Node from version 22. TypeScript's library does not declare it yet. */
const sourceAwareJson = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
};

/** Whether a value is a number that a double cannot represent. `JSON.stringify` writes it exactly. */
export const isExactNumber = (value: unknown): value is { rawJSON: string } => sourceAwareJson.isRawJSON(value);

/** Returns a JSON number with exactly these digits. */
export const exactNumber = (literal: string): unknown => sourceAwareJson.rawJSON(literal);

/** Returns sign, significant digits and power of ten of a number: equal for `1.50e1` and `15`, not for `0` and `-0`. */
export function normalForm(literal: string): string {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal);
  if (match === null) return literal;
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match;
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = trimEndOf(digits, (digit) => digit === '0');
  // A double has a negative zero, which is written as `0`.
  if (significant === '') return `${sign}0`;
  return `${sign}${significant}e${Number(exponent) - fraction.length + (digits.length - significant.length)}`;
}

/** Keeps numbers that a double would change as they were written. `JSON.stringify` writes them exactly. */
function parseExactly(text: string, notes: string[]): unknown {
  let kept = 0;
  const value = sourceAwareJson.parse(text, (_key, item, { source }) => {
    if (typeof item !== 'number' || source === undefined) return item;
    if (Number.isFinite(item) && normalForm(String(item)) === normalForm(source)) return item;
    kept += 1;
    return exactNumber(source);
  });
  if (kept > 0) notes.push(`${kept} number${kept === 1 ? '' : 's'} beyond double precision kept as written`);
  return value;
}

/** Returns a whole number as `parseJson` does: kept as written when a double would change it. */
export function exactInteger(value: bigint): unknown {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  const source = String(value);
  return normalForm(String(number)) === normalForm(source) ? number : exactNumber(source);
}

/**
 * Puts Python's `NaN`, `Infinity` and `-Infinity` outside strings in quotes. Returns `undefined` if the text contains
 * none of these values.
 */
function withQuotedNonNumbers(text: string): string | undefined {
  if (!/NaN|Infinity/.test(text)) return undefined;
  const parts: string[] = [];
  let from = 0;
  let found = false;
  for (;;) {
    const quote = text.indexOf('"', from);
    const outside = text.slice(from, quote === -1 ? text.length : quote);
    const quoted = outside.replace(/-?(?:NaN|Infinity)\b/g, '"$&"');
    found ||= quoted !== outside;
    parts.push(quoted);
    if (quote === -1) break;
    const end = endOfString(text, quote + 1);
    if (end === -1) return undefined;
    parts.push(text.slice(quote, end + 1));
    from = end + 1;
  }
  return found ? parts.join('') : undefined;
}

// -------------------------------------------------------------------------------------------------------- reading

/** Returns a string, or a number or boolean as text. `undefined` for other values and for the empty string. */
export function asText(value: unknown): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return isExactNumber(value) ? value.rawJSON : undefined;
}

/** Returns a whole number from 0 on, also when it is written as text. */
export function asCount(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}

/** Returns the JSON text of a value. Returns `undefined` if it cannot be written (too deep, too long, cyclic). */
export function toJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** Returns the first named field that is defined, else the first field whose name differs only in case. */
export function field(body: JsonObject, ...names: string[]): unknown {
  for (const name of names) {
    if (Object.hasOwn(body, name) && body[name] !== undefined) return body[name];
  }
  const lower = new Set(names.map((name) => name.toLowerCase()));
  const found = Object.keys(body).find((name) => lower.has(name.toLowerCase()));
  return found === undefined ? undefined : body[found];
}
