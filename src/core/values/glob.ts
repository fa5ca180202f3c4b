/**
 * Whether a text has the form of a pattern, in which each `*` stands for any characters, or none. It takes time in
 * proportion to the text, whoever wrote it.
 *
 * @example
 *     matchesGlob('load-*-eu', 'load-17-eu')   // true
 */
export function matchesGlob(pattern: string, text: string): boolean {
  const [first = '', ...others] = pattern.split('*');
  const last = others.pop();
  if (last === undefined) return text === pattern;
  const end = text.length - last.length;
  if (first.length > end || !text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const piece of others) {
    const found = text.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return at <= end;
}
