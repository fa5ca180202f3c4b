/**
 * Changes single values of a JSON text and keeps every other byte. A body that is parsed and written again loses long
 * integers, `1.0`, the order of equal keys, and its spacing.
 */

/** The text is not a JSON object, or the path leads through another kind of value. */
export class NotSpliceable extends Error {
  override readonly name = 'NotSpliceable';
}

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

function skipSpace(text: string, at: number): number {
  let i = at;
  while (isSpace(text.charCodeAt(i))) i++;
  return i;
}

/** Returns the offset after the string that starts at `at`. */
function skipString(text: string, at: number): number {
  for (let i = at + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x5c) i++;
    else if (code === 0x22) return i + 1;
  }
  throw new NotSpliceable('a string does not end');
}

/** Returns the offset after the value that starts at `at`. */
function skipValue(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return skipString(text, at);
  if (first !== '{' && first !== '[') {
    let i = at;
    while (i < text.length && !/[\s,\]}]/.test(text[i] ?? '')) i++;
    if (i === at) throw new NotSpliceable(`a value is missing at offset ${at}`);
    return i;
  }
  let depth = 0;
  for (let i = at; i < text.length; i++) {
    const char = text[i];
    if (char === '"') i = skipString(text, i) - 1;
    else if (char === '{' || char === '[') depth++;
    else if ((char === '}' || char === ']') && --depth === 0) return i + 1;
  }
  throw new NotSpliceable('an object or array does not end');
}

interface Found {
  /** Range of the key's value. For duplicate keys the last one, as parsers use it. */
  value?: [number, number];
  /** Offset of the object's closing brace. */
  close: number;
  empty: boolean;
}

function findMember(text: string, at: number, key: string): Found {
  let i = skipSpace(text, at);
  if (text[i] !== '{') throw new NotSpliceable('the body is not a JSON object');
  const found: Found = { close: -1, empty: true };
  i = skipSpace(text, i + 1);
  while (text[i] !== '}') {
    if (text[i] !== '"') throw new NotSpliceable(`a key is missing at offset ${i}`);
    found.empty = false;
    const keyEnd = skipString(text, i);
    const name: unknown = JSON.parse(text.slice(i, keyEnd));
    i = skipSpace(text, keyEnd);
    if (text[i] !== ':') throw new NotSpliceable(`a colon is missing at offset ${i}`);
    const start = skipSpace(text, i + 1);
    const end = skipValue(text, start);
    if (name === key) found.value = [start, end];
    i = skipSpace(text, end);
    if (text[i] === ',') i = skipSpace(text, i + 1);
    else if (text[i] !== '}') throw new NotSpliceable(`a comma is missing at offset ${i}`);
  }
  found.close = i;
  return found;
}

/**
 * Sets the value at `path` (keys from the outside in) to the JSON text `value`. Adds missing keys at the end of their
 * object.
 *
 * @param at offset of the object's beginning
 * @throws NotSpliceable
 *
 * @example
 *     setJsonValue('{"a":{"b":1}}', ['a', 'b'], '0')   // '{"a":{"b":0}}'
 */
export function setJsonValue(text: string, path: readonly string[], value: string, at = 0): string {
  const [key = '', ...rest] = path;
  const found = findMember(text, at, key);
  if (found.value) {
    const [start, end] = found.value;
    if (rest.length > 0) return setJsonValue(text, rest, value, start);
    return text.slice(0, start) + value + text.slice(end);
  }
  const nested = rest.reduceRight((inner, name) => `{${JSON.stringify(name)}:${inner}}`, value);
  const member = `${found.empty ? '' : ','}${JSON.stringify(key)}:${nested}`;
  return text.slice(0, found.close) + member + text.slice(found.close);
}
