/**
 * Changes single values of a JSON text and keeps every other byte. A body that is parsed and written again loses long
 * integers, `1.0`, the order of equal keys, and its spacing.
 */
import { endOfString } from '../../captures/json.ts';

/** Returns the offset of the next comma, colon or closing bracket that is not inside a string or an inner value. */
function nextMark(text: string, from: number): number {
  let depth = 0;
  for (let i = from; ; i++) {
    const char = text.charAt(i);
    if (char === '"') i = endOfString(text, i + 1);
    else if (char === '{' || char === '[') depth++;
    else if (depth === 0 && /[,:\]}]/.test(char)) return i;
    else if (char === '}' || char === ']') depth--;
  }
}

/**
 * Sets the value at `path` (keys from the outside in) to the JSON text `value`. Adds missing keys at the end of their
 * object. Of equal keys, the last one is set, which parsers use.
 *
 * @param text valid JSON. Python's `NaN` is allowed
 * @param at offset of the object's beginning, or of the spaces before it
 * @throws Error if the path leads through a value that is not an object
 *
 * @example
 *     setJsonValue('{"a":{"b":1}}', ['a', 'b'], '0')   // '{"a":{"b":0}}'
 */
export function setJsonValue(text: string, path: readonly string[], value: string, at = 0): string {
  const [key = '', ...rest] = path;
  const open = at + text.slice(at).search(/\S/);
  if (text[open] !== '{') throw new Error(`there is no object for the key ${JSON.stringify(key)}`);
  let end = open;
  let separator = '';
  let old: { start: number; json: string } | undefined;
  do {
    const colon = nextMark(text, end + 1);
    const name = text.slice(end + 1, colon);
    end = colon;
    // An empty object.
    if (text[colon] !== ':') break;
    end = nextMark(text, colon + 1);
    separator = ',';
    if (JSON.parse(name) === key) old = { start: colon + 1, json: text.slice(colon + 1, end) };
  } while (text[end] === ',');
  if (old) {
    const start = old.start + old.json.search(/\S/);
    if (rest.length > 0) return setJsonValue(text, rest, value, start);
    return text.slice(0, start) + value + text.slice(start + old.json.trim().length);
  }
  const nested = rest.reduceRight((inner, name) => `{${JSON.stringify(name)}:${inner}}`, value);
  return `${text.slice(0, end)}${separator}${JSON.stringify(key)}:${nested}${text.slice(end)}`;
}
