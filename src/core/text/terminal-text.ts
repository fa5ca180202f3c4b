/** Breaks lines for terminals of any width. */

const DEFAULT_COLUMNS = 80;

/** Returns the width of a terminal. Some report 0 columns. */
export const columnsOf = (output: NodeJS.WriteStream): number => output.columns || DEFAULT_COLUMNS;

/**
 * Breaks a line between words, so that no terminal breaks it within one. Further lines are indented by two more columns. A word
 * that is longer than a line stays whole.
 *
 * @param width in columns; `Infinity` for none
 */
export function wrapped(line: string, width: number): string[] {
  const indent = /^ */.exec(line)?.[0] ?? '';
  const lines: string[] = [];
  let rest = line;
  while (rest.length > width) {
    const start = rest.length - rest.trimStart().length;
    const within = rest.lastIndexOf(' ', width);
    const at = within > start ? within : rest.indexOf(' ', start);
    if (at < 0) break;
    lines.push(rest.slice(0, at));
    rest = `${indent}  ${rest.slice(at + 1)}`;
  }
  return [...lines, rest];
}

/** Returns lines as text, each broken at the width. */
export const wrappedText = (lines: readonly string[], width: number): string =>
  lines.flatMap((line) => wrapped(line, width).map((part) => `${part}\n`)).join('');

/**
 * Puts foreign text on one line, without what a terminal would interpret: control characters, and those that reverse the
 * direction of the text after them.
 */
export const singleLine = (text: string): string => text.replace(/[\s\p{Cc}\u202a-\u202e\u2066-\u2069]+/gu, ' ');
