/** Reads text that may not be JSON. */

/** Returns the value of a JSON text; `undefined` if it is not JSON. The parser's error is dropped, since it quotes the text. */
export function jsonIn(text: string | Buffer): unknown {
  try {
    return JSON.parse(text.toString());
  } catch {
    return undefined;
  }
}
