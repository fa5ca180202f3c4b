/** When two labels, or a label and a prediction, are the same value: files, replies and settings write it in different ways. */
import type { LabelValue } from '../contract/ground-truth.ts';

const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
/** Longer ones are ids of a class: as numbers, different ones would become equal. */
const LONG_INTEGER = /^[+-]?\d{16}/;
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

/**
 * Returns the class that a value names: `1`, `"1"`, `"1.0"`, `true` and `"True"` are `1`. Texts are as they are, without outer
 * whitespace.
 */
export function classOf(value: LabelValue): string {
  if (typeof value === 'string') {
    const text = value.trim();
    const lower = text.length === 4 || text.length === 5 ? text.toLowerCase() : '';
    if (lower === 'true' || lower === 'false') return lower === 'true' ? '1' : '0';
    if (LONG_INTEGER.test(text)) return text;
    const number = numberOf(text);
    return number === null ? text.normalize('NFC') : String(number);
  }
  // -0 is 0.
  return String(Number(value));
}

/** Whether two labels are the same value. */
export const sameLabel = (a: LabelValue, b: LabelValue): boolean => a === b || classOf(a) === classOf(b);
