/** When two labels, or a label and a prediction, are the same value: files, replies and settings write it in different ways. */

import { cellOf } from '../captures/payload/csv.ts';
import type { LabelValue } from '../core/contract/ground-truth.ts';

/** A longer text is no class: its hashes are kept. */
export const MAX_CLASS_CHARS = 64;

/** An inference with a longer id has no prediction. */
export const MAX_ID_CHARS = 256;

const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
/** What programs write for a whole number. Longer ones are ids of a class: as numbers, different ones would become equal. */
const WHOLE = /^[+-]?(?:0|[1-9]\d{0,14})(?:\.0)?$/;
/** No longer text is written for a number or for true and false. */
const MAX_NUMBER = 40;

/** Returns the number that a value is, or that its text writes; 1 and 0 for true and false. `null` if it is none. */
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

/** Returns the number that a prediction writes: of `0.50` 0.5, of `87%` 87. Codes such as `007`, and flags, are none. */
export function predictedNumber(value: LabelValue): number | undefined {
  const number = isPercentage(value)
    ? Number.parseFloat(String(value))
    : typeof value === 'string'
      ? cellOf(value)
      : value;
  return typeof number === 'number' ? number : undefined;
}

/**
 * Returns the class that a value names: `1`, `"1"`, `"1.0"`, `true` and `"True"` are `1`. Other texts are as they are, without outer
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

/** Returns a text as a number, unless that is another class: `"0.5"` is 0.5, `"0.50"` stays as it is. */
export function classOrNumber(text: string): string | number {
  const cell = cellOf(text);
  return typeof cell === 'number' && classOf(text) === classOf(cell) ? cell : text;
}

/** Whether two labels are the same value. */
export const sameLabel = (a: LabelValue, b: LabelValue): boolean => a === b || classOf(a) === classOf(b);
