/** Reads token counts from the fields where servers put them. Nothing is estimated: a missing count stays unknown. */
import { firstOf } from '../../core/values/first-of.ts';
import { asCount, isObject } from '../json.ts';
import type { TokenUsage } from '../types.ts';
import { usagePaths } from '../wire/registry.ts';

const NAMES = ['inputTokens', 'outputTokens', 'totalTokens', 'cachedInputTokens', 'reasoningTokens'] as const;
const PATHS = NAMES.map((name) => [name, usagePaths(name)] as const);
/** A larger count is not believable. */
const MAX_TOKENS = 1e9;

/** Compares the names of headers without regard to case and `_`, since spellings vary. */
function under(value: Record<string, unknown>, name: string): unknown {
  if (Object.hasOwn(value, name) || !name.includes('-')) return Object.hasOwn(value, name) ? value[name] : undefined;
  const found = Object.keys(value).find((key) => key.toLowerCase().replaceAll('_', '-') === name);
  return found === undefined ? undefined : value[found];
}

function countAt(value: unknown, [name, ...rest]: readonly string[]): number | undefined {
  if (name === undefined) {
    const count = asCount(value);
    return count !== undefined && count <= MAX_TOKENS ? count : undefined;
  }
  if (!Array.isArray(value)) return isObject(value) ? countAt(under(value, name), rest) : undefined;
  if (name === 'length') return value.length || undefined;
  return name === '*' ? sumOf(value, (item) => countAt(item, rest)) : undefined;
}

/** Adds up the counts when all items have one. Stops at the first without one, since a list can have a million items. */
function sumOf<Item>(items: readonly Item[], countOf: (item: Item) => number | undefined): number | undefined {
  let sum = 0;
  for (const item of items) {
    const count = countOf(item);
    if (count === undefined) return undefined;
    sum += count;
  }
  return items.length > 0 ? sum : undefined;
}

/** @param value of the reply. The counts of a list's items are added up. */
export function tokenUsageOf(value: unknown): TokenUsage | undefined {
  const items = (Array.isArray(value) ? value.flat(1) : [value]).filter(isObject);
  const usage: TokenUsage = {};
  for (const [name, paths] of PATHS) {
    const count = sumOf(items, (body) => firstOf(paths, (path) => countAt(body, path)));
    if (count !== undefined) usage[name] = count;
  }
  const { inputTokens, outputTokens } = usage;
  if (inputTokens !== undefined && outputTokens !== undefined) usage.totalTokens ??= inputTokens + outputTokens;
  return Object.keys(usage).length > 0 ? usage : undefined;
}
