/**
 * Decides whether two labels, or a label and a prediction, have the same value. Files, replies and settings write
 * values in different ways.
 */

import { cellOf } from '../captures/payload/csv.ts';
import type { LabelValue } from '../core/contract/ground-truth.ts';

/** Maximum length of a class. A longer text is kept as hashes. */
export const MAX_CLASS_CHARS = 64;

/** An inference with a longer id has no prediction. */
export const MAX_ID_CHARS = 256;

const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
/**
 * Usual spellings of a whole number. Longer numbers are ids of a class: as numbers, different ids would become equal.
 */
const WHOLE = /^[+-]?(?:0|[1-9]\d{0,14})(?:\.0)?$/;
/** No longer text is written for a number or for true and false. */
const MAX_NUMBER = 40;

/**
 * Returns the number that a value is, or that its text contains; 1 and 0 for true and false. Returns `null` if it is
 * not a number.
 */
export function numberOf(value: LabelValue): number | null {
  if (typeof value !== 'string') return Number.isFinite(Number(value)) ? Number(value) : null;
  if (value.length > MAX_NUMBER) return null;
  const text = value.trim();
  const number = NUMBER.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(number) ? number : null;
}

const PERCENTAGE = /^\d{1,3}(?:\.\d{1,30})?\s?%$/;

/** Whether a value is written as `87%`. */
export const isPercentage = (value: LabelValue | undefined): boolean =>
  typeof value === 'string' && PERCENTAGE.test(value.trim());

/**
 * Returns the number in a prediction: for `0.50` 0.5, for `87%` 87. Codes such as `007`, and flags, are not numbers.
 */
export function predictedNumber(value: LabelValue): number | undefined {
  const number = isPercentage(value)
    ? Number.parseFloat(String(value))
    : typeof value === 'string'
      ? cellOf(value)
      : value;
  return typeof number === 'number' ? number : undefined;
}

/**
 * Returns the class for a value: `1`, `"1"`, `"1.0"`, `true` and `"True"` are `1`. Other texts only lose their outer
 * whitespace: `"007"`, `"1E2"` and `"0.10"` are codes.
 */
export function classOf(value: LabelValue): string {
  if (typeof value === 'string') {
    const text = value.trim();
    const lower = text.length === 4 || text.length === 5 ? text.toLowerCase() : '';
    if (lower === 'true' || lower === 'false') return lower === 'true' ? '1' : '0';
    return WHOLE.test(text) ? String(Number(text)) : text.normalize('NFC');
  }
  // -0 is 0.
  return String(Number(value));
}

/** Returns a text as a number, unless the number is a different class: `"0.5"` becomes 0.5, `"0.50"` stays a text. */
export function classOrNumber(text: string): string | number {
  const cell = cellOf(text);
  return typeof cell === 'number' && classOf(text) === classOf(cell) ? cell : text;
}

/** Whether two labels are the same value. */
export const sameLabel = (a: LabelValue, b: LabelValue): boolean => a === b || classOf(a) === classOf(b);
