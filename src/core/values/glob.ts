/**
 * Whether a text has the form of a pattern, in which each `*` stands for any characters, or none. It takes time in
 * proportion to the text, whoever wrote it.
 *
 * @example
 *     matchesGlob('load-*-eu', 'load-17-eu')   // true
 */
export function matchesGlob(pattern: string, text: string): boolean {
  const pieces = pattern.split('*');
  const last = pieces.pop() ?? '';
  if (pieces.length === 0) return text === last;
  let end = 0;
  for (const [index, piece] of pieces.entries()) {
    const at = text.indexOf(piece, end);
    if (at < 0 || (index === 0 && at > 0)) return false;
    end = at + piece.length;
  }
  return end <= text.length - last.length && text.endsWith(last);
}
