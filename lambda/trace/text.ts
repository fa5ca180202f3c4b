/** Text as databases and MLflow's fields take it. */
import { isExactNumber, isObject, MAX_JSON_DEPTH, toJson } from '../capture/json.ts';

/** Stands at the end of what was cut. */
export const CUT_MARK = '…';

/** At most `max` characters, the last one being the cut mark when something was cut; no character is halved. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  const kept = text.slice(0, max - CUT_MARK.length);
  const last = kept.charCodeAt(kept.length - 1);
  return `${last >= 0xd800 && last <= 0xdbff ? kept.slice(0, -1) : kept}${CUT_MARK}`;
}

/**
 * Text that every database takes: PostgreSQL refuses NUL, and an unpaired surrogate has no UTF-8. Both become U+FFFD.
 */
export const cleanText = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd');

/** Whether a text, or JSON text with its escapes, may hold what `cleanText` replaces. */
export const needsCleaning = (text: string): boolean =>
  text.includes('\0') || text.includes('\\u0000') || /\\u[dD][89a-fA-F]/.test(text) || !text.isWellFormed();

/** A JSON value with every text in it, keys included, made clean; `changed` tells whether one was not. */
export function cleanValue(value: unknown): { value: unknown; changed: boolean } {
  let changed = false;
  const clean = (text: string): string => {
    const cleaned = cleanText(text);
    if (cleaned !== text) changed = true;
    return cleaned;
  };
  const walk = (item: unknown): unknown => {
    if (typeof item === 'string') return clean(item);
    if (Array.isArray(item)) return item.map(walk);
    if (!isObject(item)) return item;
    return Object.fromEntries(Object.entries(item).map(([name, inner]) => [clean(name), walk(inner)]));
  };
  return { value: walk(value), changed };
}

/** The value itself, or a word in its place when it is nested deeper than MLflow's server can read. */
export function withinDepth(value: unknown): unknown {
  const isTooDeep = (item: unknown, left: number): boolean => {
    if (typeof item !== 'object' || item === null || isExactNumber(item)) return false;
    return left === 0 || Object.values(item).some((inner) => isTooDeep(inner, left - 1));
  };
  if (isTooDeep(value, MAX_JSON_DEPTH)) return `[nested more than ${MAX_JSON_DEPTH} levels deep; see the line in S3]`;
  return toJson(value) === undefined ? '[cannot be written as JSON; see the line in S3]' : value;
}
