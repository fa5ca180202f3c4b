/** Tables for terminals of any width. */
import { wrapped } from './terminal-text.ts';
export interface TableOptions {
  /** Columns. */
  width: number;
  style(style: 'bold', text: string): string;
}

/** Figures, which are aligned to the right. */
const FIGURE = /^\$?[\d,.]*%?$/;

/**
 * Returns a table if it fits the width. Otherwise each row has its first cell on a line of its own, and the others, with their
 * names, below it.
 *
 * @param rows texts of one line each
 */
export function tableText(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  options: TableOptions,
): string {
  const { width, style } = options;
  const columns = head.map((name, column) => {
    const cells = rows.map((row) => row[column] ?? '');
    return {
      size: Math.max(name.length, ...cells.map(({ length }) => length)),
      isRight: cells.every((cell) => FIGURE.test(cell)),
    };
  });
  const line = (cells: readonly string[]): string =>
    columns
      .map(({ size, isRight }, column) =>
        isRight ? (cells[column] ?? '').padStart(size) : (cells[column] ?? '').padEnd(size),
      )
      .join('  ')
      .trimEnd();
  if (columns.reduce((total, { size }) => total + size + 2, -2) <= width) {
    return [style('bold', line(head)), ...rows.map(line)].map((text) => `${text}\n`).join('');
  }
  return rows.map(([first = '', ...others]) => stacked(head.slice(1), first, others, options)).join('');
}

function stacked(
  names: readonly string[],
  first: string,
  others: readonly string[],
  { width, style }: TableOptions,
): string {
  const facts = others.flatMap((cell, index) => (cell === '' ? [] : [`${names[index]} ${cell}`]));
  const lines = [
    ...wrapped(first, width).map((text) => style('bold', text)),
    ...wrapped(`  ${facts.join(', ')}`, width),
  ];
  return lines.map((text) => `${text}\n`).join('');
}
