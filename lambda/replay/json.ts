/** JSON that others wrote: captured requests and replies, and what a target answers. */
import { MAX_JSON_DEPTH } from '../capture/json.ts';

const isNested = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** A level at a time: a recursion would be ended by what it is to find. */
function isTooDeep(value: unknown): boolean {
  let level = isNested(value) ? [value] : [];
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > MAX_JSON_DEPTH) return true;
    const next: object[] = [];
    for (const one of level) {
      for (const inner of Array.isArray(one) ? one : Object.values(one)) if (isNested(inner)) next.push(inner);
    }
    level = next;
  }
  return false;
}

/** It is JSON, and is not taken apart. */
export class NestedTooDeep extends Error {
  override readonly name = 'NestedTooDeep';

  constructor() {
    super(`it is nested more than ${MAX_JSON_DEPTH} levels deep`);
  }
}

/**
 * The value of a JSON text. Whoever walks a value or writes it again, `JSON.stringify` itself too, uses up the stack for
 * one that is nested deep enough.
 *
 * @throws SyntaxError, NestedTooDeep
 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // Each level takes two characters.
  if (text.length > 2 * MAX_JSON_DEPTH && isTooDeep(value)) throw new NestedTooDeep();
  return value;
}
