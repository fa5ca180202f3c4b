/** The output of a command or report as data, and its text for a terminal of any width or a pipe. Its HTML: `html-page.ts`. */
import { whole } from './figure-text.ts';
import { PIPE, printable, type Style, type TextOptions, wrapped } from './terminal-text.ts';

/** Parts from top to bottom. */
export type Page = readonly Part[];

/** A text is broken between words. A list is indented. */
export type Part = Nothing | string | Styled | Section | Table | Facts | Marked | Page;

/** A part that is left out. */
type Nothing = false | null | undefined | '';

/** A text with its own HTML, such as a figure with its exact value. A chart has no text. */
export type Marked = Record<'text' | 'html', string>;

export type Cell = string | Marked;
type Row = readonly Cell[];

interface Styled<T = string> {
  style: Parameters<Style>[0] | 'exact' | undefined;
  of: T;
}

interface Section {
  title: string;
  parts: Page;
}

export interface Table {
  head: readonly string[];
  rows: readonly Styled<Row>[];
}

interface Facts {
  facts: readonly (readonly [name: string, value: string | number])[];
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

/** Returns parts below a heading, with an empty line above it. Without parts, the section is left out. */
export const section = (title: string, ...parts: Page): Section => ({ title, parts });

/** Parts with an empty line above them. */
export const block = (...parts: Page): Section => section('', ...parts);

/**
 * Returns rows below their head. Without rows, the table is left out.
 *
 * @example
 *     table([['run', 'r1'], ['lines', '12']], ['name', 'value'])
 */
export const table = (rows: readonly (Row | Styled<Row> | Nothing)[], head: readonly string[] = []): Table => ({
  head,
  rows: rows.flatMap((row) => (!row ? [] : 'of' in row ? row : { style: undefined, of: row })),
});

/** Returns a section with a note and a table. Without rows, the section is left out. */
export const sheet = (title: string, note: string, head: readonly string[], rows: readonly Row[]): Part =>
  rows.length > 0 && section(title, dim(note), table(rows, head));

/**
 * Returns a line for each known fact, `name: value`.
 *
 * @example
 *     facts({ lines: 12, lost: false })   // ['lines: 12', false]: false is left out when the page is printed
 */
export const facts = (of: Readonly<Record<string, string | number | false | null | undefined>>): Facts => ({
  facts: Object.entries(of).filter((fact): fact is [string, string | number] => (fact[1] ?? false) !== false),
});

/** Returns the first parts, and the number of further parts. @param all total number, if only some parts are known */
export const firstOf = (most: number, parts: Page, what = '', all = parts.length): Part[] => [
  ...parts.slice(0, most),
  all > most && `and ${whole(all - most)} more${what}`,
];

/** Draws a page; for a pipe, unless there is a terminal. */
export const pageText = (page: Page, out = PIPE): string =>
  drawnAll(page, out)
    .map((line) => `${line}\n`)
    .join('');

/** Sections are separated by one empty line. There is no empty line above the first section. */
function drawnAll(parts: Page, out: TextOptions): string[] {
  const lines = parts.flatMap((part) => drawn(part, out));
  return lines.filter((line, index) => line !== '' || (index > 0 && lines[index - 1] !== ''));
}

const INDENT = '  ';

function drawn(part: Part, out: TextOptions): string[] {
  if (!part) return [];
  if (typeof part === 'string') return wrapped(printable(part), out.width);
  if ('html' in part) return drawn(part.text, out);
  if ('facts' in part) return part.facts.flatMap(([name, value]) => drawn(`${name}: ${value}`, out));
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

const textOf = (cell: Cell = ''): string => (typeof cell === 'string' ? cell : cell.text);

const FIGURE = /^(?:[+-]?\$?[\d,.]*%?|–)$/;
/** Whether a column has only figures. Figures are aligned to the right. */
export const isOfFigures = ({ rows }: Table, at: number): boolean =>
  rows.every(({ of }) => FIGURE.test(textOf(of[at])));

/** Between columns. */
const GAP = '  ';
/** A last column of words is broken between them if it has this width. */
const LEAST_WIDTH = 20;

/**
 * Draws a table. Columns without room go below each row, with their names: from the last one on, after a first one that is as
 * wide as half of the terminal.
 */
function tableLines(shown: Table, out: TextOptions): string[] {
  const { head, rows } = shown;
  const lines = [{ style: 'bold' as const, of: head as Row }, ...rows]
    .filter(({ of }) => of.length > 0)
    .map(({ style, of }) => ({ style, cells: of.map((cell) => printable(textOf(cell))) }));
  const columns = (lines[0]?.cells ?? []).map((_, at) => {
    const cells = lines.map((line) => line.cells[at] ?? '');
    const size = Math.max(...cells.map(({ length }) => length));
    const least = cells.some((cell) => cell.includes(' ')) ? Math.min(LEAST_WIDTH, size) : size;
    return { size, least, isRight: isOfFigures(shown, at) };
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
