/** Breaks lines for terminals of any width. */

/**
 * Breaks a line between words, so that no terminal breaks it within one. Further lines are indented by two more columns.
 *
 * @param width in columns; `Infinity` for none
 */
export function wrapped(line: string, width: number): string[] {
  const indent = /^ */.exec(line)?.[0] ?? '';
  const lines: string[] = [];
  let rest = line;
  while (rest.length > width) {
    const at = rest.lastIndexOf(' ', width);
    if (at <= indent.length + 2) break;
    lines.push(rest.slice(0, at));
    rest = `${indent}  ${rest.slice(at + 1)}`;
  }
  return [...lines, rest];
}
