/** What a command shows, as data, and how a terminal of any width or a pipe shows it. */
import { whole } from '../../src/core/text/figure-text.ts';
import { PIPE, printable, type Style, type TextOptions, wrapped } from '../../src/core/text/terminal-text.ts';

/** From top to bottom. */
export type Page = readonly Part[];

/** A text is broken between words. A list is indented. */
export type Part = Nothing | string | Styled | Section | Table | Page;

/** Is left out. */
type Nothing = false | null | undefined | '';

type Row = readonly string[];

interface Styled<T = string> {
  style: Parameters<Style>[0] | 'exact' | undefined;
  of: T;
}

interface Section {
  title: string;
  parts: Page;
}

interface Table {
  head: Row;
  rows: readonly Styled<Row>[];
}

/** Puts a text, or a row of a table, into a style. */
const inStyle =
  (style: Styled['style']) =>
  <T extends string | Row | Nothing>(of: T) =>
    (of && { style, of }) as Styled<Exclude<T, Nothing>> | Extract<T, Nothing>;
export const bold = inStyle('bold');
export const dim = inStyle('dim');
export const red = inStyle('red');
export const green = inStyle('green');

/** A command or an address, which is not broken, so that it can be copied. */
export const exact = inStyle('exact');

/** Parts below a heading, with an empty line above it. Without parts, nothing. */
export const section = (title: string, ...parts: Page): Section => ({ title, parts });

/** Parts with an empty line above them. */
export const block = (...parts: Page): Section => section('', ...parts);

/** Rows below their head; without rows, nothing. */
export const table = (rows: readonly (Row | Styled<Row> | Nothing)[], head: Row = []): Table => ({
  head,
  rows: rows.flatMap((row) => (!row ? [] : 'of' in row ? row : { style: undefined, of: row })),
});

/** A line for each fact, `name: value`, without those that are not known. */
export const facts = (of: Readonly<Record<string, string | number | false | null | undefined>>): Part[] =>
  Object.entries(of).map(
    ([name, value]) => value !== undefined && value !== null && value !== false && `${name}: ${value}`,
  );

/** The first parts, and how many more there are. @param all their number, if only some are known */
export const firstOf = (most: number, parts: Page, what = '', all = parts.length): Part[] => [
  ...parts.slice(0, most),
  all > most && `and ${whole(all - most)} more${what}`,
];

/** Draws a page; for a pipe, unless there is a terminal. */
export const pageText = (page: Page, out = PIPE): string =>
  drawnAll(page, out)
    .map((line) => `${line}\n`)
    .join('');

/** Sections are one empty line apart, and none is above the first one. */
function drawnAll(parts: Page, out: TextOptions): string[] {
  const lines = parts.flatMap((part) => drawn(part, out));
  return lines.filter((line, index) => line !== '' || (index > 0 && lines[index - 1] !== ''));
}

const INDENT = '  ';

function drawn(part: Part, out: TextOptions): string[] {
  if (!part) return [];
  if (typeof part === 'string') return wrapped(printable(part), out.width);
  if ('of' in part && part.style === 'exact') return [printable(part.of)];
  if ('of' in part) return drawn(part.of, out).map((line) => inColor(part.style, line, out));
  if ('rows' in part) return part.rows.length === 0 ? [] : tableLines(part, out);
  if ('title' in part) {
    const lines = drawnAll(part.parts, out);
    return lines.length === 0 ? [] : ['', ...drawn(part.title && bold(`── ${part.title} ──`), out), ...lines];
  }
  const lines = drawnAll(part, { ...out, width: out.width - INDENT.length });
  return lines.map((line) => (line === '' ? line : INDENT + line));
}

const inColor = (style: Styled['style'], line: string, out: TextOptions): string =>
  style === undefined || style === 'exact' ? line : out.style(style, line);

/** Figures, which are aligned to the right. */
const FIGURE = /^(?:\$?[\d,.]*%?|–)$/;
/** Between columns. */
const GAP = '  ';
/** A last column of words is broken between them if it has this width. */
const LEAST_WIDTH = 20;

/**
 * Draws a table. Columns without room go below each row, with their names: from the last one on, after a first one that is as
 * wide as half of the terminal.
 */
function tableLines({ head, rows }: Table, out: TextOptions): string[] {
  const lines = [{ style: 'bold' as const, of: head }, ...rows]
    .filter(({ of }) => of.length > 0)
    .map(({ style, of }) => ({ style, cells: of.map((cell) => printable(cell)) }));
  const columns = (lines[0]?.cells ?? []).map((_, at) => {
    const cells = lines.map((line) => line.cells[at] ?? '');
    const size = Math.max(...cells.map(({ length }) => length));
    const least = cells.some((cell) => cell.includes(' ')) ? Math.min(LEAST_WIDTH, size) : size;
    return { size, least, isRight: rows.every(({ of }) => FIGURE.test(of[at] ?? '')) };
  });
  const startOf = (first: number, at: number): number =>
    columns.slice(first, at).reduce((sum, { size }) => sum + size + GAP.length, 0);
  const hasRoom = (first: number, last: number): boolean =>
    startOf(first, last) + (columns[last]?.least ?? 0) <= out.width;
  let last = columns.length - 1;
  const isFirstBelow = last > 1 && !hasRoom(0, last) && (columns[0]?.size ?? 0) > out.width / 2;
  const first = isFirstBelow ? 1 : 0;
  while (last > first && !hasRoom(first, last)) last -= 1;
  const start = startOf(first, last);
  return lines.flatMap(({ style, cells }, index) => {
    const padded = columns.map(({ size, isRight }, at) => (cells[at] ?? '')[isRight ? 'padStart' : 'padEnd'](size));
    const before = padded.slice(first, last).map((cell) => cell + GAP);
    const row = wrapped(padded[last]?.trimEnd() ?? '', out.width - start, 0).map((text, line) =>
      `${line === 0 ? before.join('') : ' '.repeat(start)}${text}`.trimEnd(),
    );
    const named = cells.map((cell, at) => cell && `${at === 0 ? '' : (head[at] ?? '')} ${cell}`.trim());
    const below = [...named.slice(0, first), ...named.slice(last + 1)].filter(Boolean).join(', ');
    const isHead = index === 0 && head.length > 0;
    return [...row, ...drawn(!isHead && [below], out)].map((line) => inColor(style, line, out));
  });
}
