/** Reads parts of JSON values that may have any type. */
import { isObject, type JsonObject } from '../json.ts';

/** Returns the objects of a list; none when the value is not a list. */
export const objectsIn = (value: unknown): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : []);

/** Returns the value when it is an object, else an empty object. */
export const fieldsOf = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** Returns the value when it is a number. */
export const numberOr = (value: unknown, fallback: number): number => (typeof value === 'number' ? value : fallback);

/** Returns the object without the named fields. */
export const without = (value: JsonObject, ...names: string[]): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)));

/** Returns the strings among the values, in order. */
export const textsOf = (values: unknown[]): string[] =>
  values.filter((value): value is string => typeof value === 'string');

/** Joins the strings among the values. */
export const allText = (values: unknown[]): string => textsOf(values).join('');

/** Joins the strings among a few values. A list of any length would overflow the stack: use `allText`. */
export const textIn = (...values: unknown[]): string => allText(values);

/** Appends a piece to a text; either may be another value. V8 does not copy the text, however often this is called. */
export const joined = (before: unknown, piece: unknown): string =>
  `${typeof before === 'string' ? before : ''}${typeof piece === 'string' ? piece : ''}`;
