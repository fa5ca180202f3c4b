/** What a command shows, as data, and how a terminal of any width or a pipe shows it. */
import { whole } from '../../src/core/text/figure-text.ts';
import { PIPE, printable, type Style, type TextOptions, wrapped } from '../../src/core/text/terminal-text.ts';

/** From top to bottom. */
export type Page = readonly Part[];

/** A text is broken between words. A list is indented. */
export type Part = Nothing | string | Styled | Exact | Section | Table | Page;

/** Is left out. */
type Nothing = false | null | undefined | '';

type Row = readonly string[];

interface Styled<T = string> {
  style: Parameters<Style>[0] | undefined;
  of: T;
}

/** A command or an address, which is not broken, so that it can be copied. */
interface Exact {
  exact: string;
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

export const exact = (text: string): Exact => ({ exact: text });

/** Parts with an empty line above them, and a heading if they have a title. Without parts, nothing. */
export const section = (title: string, ...parts: Page): Section => ({ title, parts });

/** Rows below their head, if there are any. */
export const table = (head: Row, rows: readonly (Row | Styled<Row> | Nothing)[]): Table => ({
  head,
  rows: rows.flatMap((row) => (!row ? [] : 'of' in row ? row : { style: undefined, of: row })),
});

type Fact = string | number | boolean | null | undefined | { readonly [name: string]: Fact };

/** A line for each fact, `name: value`. What is unknown is left out, and further facts are below their name. */
export const facts = (of: Readonly<Record<string, Fact>>): Part[] =>
  Object.entries(of).flatMap(([name, value]) => {
    if (value === undefined || value === null || value === false) return [];
    if (typeof value === 'object') return [`${name}:`, facts(value)];
    return [`${name}: ${typeof value === 'number' ? whole(value) : value}`];
  });

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

/** Sections that begin and end together are one empty line apart. */
function drawnAll(parts: Page, out: TextOptions): string[] {
  const lines = parts.flatMap((part) => drawn(part, out));
  return lines.filter((line, index) => line !== '' || lines[index - 1] !== '');
}

const INDENT = '  ';

function drawn(part: Part, out: TextOptions): string[] {
  if (!part) return [];
  if (typeof part === 'string') return wrapped(printable(part), out.width);
  if ('exact' in part) return [printable(part.exact)];
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
  style === undefined ? line : out.style(style, line);

/** Figures, which are aligned to the right. */
const FIGURE = /^(?:\$?[\d,.]*%?|–)$/;
/** Between columns. */
const GAP = '  ';
/** The last column is broken between words if it has this width. */
const LEAST_WIDTH = 16;

/** A table. Where it has no room, each row has its first cell on a line of its own, and below it the others with their names. */
function tableLines({ head, rows }: Table, out: TextOptions): string[] {
  const lines = [{ style: 'bold' as const, of: head }, ...rows]
    .filter(({ of }) => of.length > 0)
    .map(({ style, of }) => ({ style, cells: of.map((cell) => printable(cell)) }));
  const columns = (lines[0]?.cells ?? []).map((_, at) => ({
    size: Math.max(...lines.map(({ cells }) => cells[at]?.length ?? 0)),
    isRight: rows.every(({ of }) => FIGURE.test(of[at] ?? '')),
  }));
  const last = columns.length - 1;
  const before = columns.slice(0, last).reduce((sum, { size }) => sum + size + GAP.length, 0);
  const words = lines.flatMap(({ cells }) => cells[last]?.split(' ').map(({ length }) => length) ?? []);
  const least = Math.max(Math.min(LEAST_WIDTH, columns[last]?.size ?? 0), ...words);
  if (before + least > out.width) return rows.flatMap(({ of }) => stacked(head, of, out));
  return lines.flatMap(({ style, cells }) => {
    const padded = columns.map(({ size, isRight }, at) => (cells[at] ?? '')[isRight ? 'padStart' : 'padEnd'](size));
    const start = padded.slice(0, last).map((cell) => cell + GAP);
    return wrapped(padded[last]?.trimEnd() ?? '', out.width - before, 0).map((text, index) =>
      inColor(style, `${index === 0 ? start.join('') : ' '.repeat(before)}${text}`.trimEnd(), out),
    );
  });
}

function stacked(head: Row, [first = '', ...others]: Row, out: TextOptions): string[] {
  const named = others.map((cell, at) => (cell === '' ? '' : `${head[at + 1] ?? ''} ${cell}`.trim()));
  return drawnAll([bold(first), [named.filter(Boolean).join(', ')]], out);
}
