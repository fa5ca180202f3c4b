/** Parses the comma separated values of a tabular model's request or reply. */
import { type Options, parse } from 'csv-parse/sync';
import { exactNumber, normalForm } from '../json.ts';

/** A number when a double represents the text exactly, else the text. */
export type Cell = string | number;
/** A cell of a reply: a number that is written in an unusual way, such as `0.10`, is kept as written; see `isExactNumber`. */
export type CsvCell = Cell | { rawJSON: string } | unknown[];

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?$/;
/** Maximum digits of a written double. */
const MAX_DOUBLE_DIGITS = 17;
/** A double rounds whole numbers beyond 2^53. Such numbers are identifiers, not measurements. */
const MAX_WHOLE_DIGITS = 15;

/** Returns a cell's value. Text that a number would change (`007`, `-0`, a 20 digit id) stays text. */
export function cellOf(text: string): Cell {
  const trimmed = text.trim();
  if (!NUMBER.test(trimmed)) return text;
  const number = Number(trimmed);
  const written = String(number);
  if (written === trimmed || normalForm(written) === normalForm(trimmed)) return number;
  if (Object.is(number, -0) || !Number.isFinite(number)) return text;
  // Programs write 17 digits of a double where 16 are enough: 0.10000000000000001 is 0.1. No other digits are lost.
  const [whole = '', fraction = ''] = trimmed.replace('-', '').split(/[eE]/, 1).join('').split('.');
  const digits = `${whole}${fraction}`.replace(/^0+/, '').length;
  const isMeasurement = fraction !== '' && whole.length <= MAX_WHOLE_DIGITS && digits <= MAX_DOUBLE_DIGITS;
  return isMeasurement ? number : text;
}

/** Returns rows of cells, including a header row. Quoted cells are text. Never throws. */
export const parseCsv = (text: string): { rows: Cell[][] } | { problem: string } => parseCells(text, cellOf);

type Parsed<T> = { rows: (T | string)[][] } | { problem: string };

function parseCells<T>(text: string, cast: (cell: string) => T, more: Options = {}): Parsed<T> {
  try {
    const rows = parse(text, {
      ...more,
      bom: true,
      relax_column_count: true,
      skip_empty_lines: true,
      cast: (value, context) => (context.quoting ? value : cast(value)),
    }) as (T | string)[][];
    return { rows };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

/** Whether each line is two whole numbers, or one number with a decimal comma. */
export const mayBeDecimals = (text: string): boolean => /^-?\d+,\d/.test(text) && !/^(?!-?\d+,\d+\r?$|$)/m.test(text);

const NUMBER_CELL = /(?:^|;)[ \t]{0,20}-?\d[\d.]{0,20}(?:,\d+)?[ \t]{0,20}(?:[;\r]|$)/m;

/** Returns whether a comma is a decimal one: between semicolons, of which each line has as many, or before a zero as in `0,05`. */
function hasDecimalCommas(text: string): boolean {
  if (!text.includes(';')) return /,0\d/.test(text) && mayBeDecimals(text);
  const counts = new Set(Array.from(text.trim().split('\n'), (line) => line.split(';').length));
  return counts.size === 1 && NUMBER_CELL.test(text);
}

/** A number with a decimal comma, also behind dots between thousands. */
const DECIMAL = /^\s*-?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+\s*$/;
const decimalCell = (text: string): CsvCell =>
  writtenCell(DECIMAL.test(text) ? text.replaceAll('.', '').replace(',', '.') : text);

/**
 * Returns the rows of a reply. Programs write lists in brackets into cells, as Python or JSON does: `[0.1, 0.7, 0.2],[0.8, 0.1, 0.1]`
 * is two cells. Never throws.
 */
export function parseCsvReply(text: string): { rows: CsvCell[][] } | { problem: string } {
  const [cast, delimiter] = hasDecimalCommas(text) ? [decimalCell, ';'] : [writtenCell, ','];
  const table = parseCells(onOneLine(text), cast, { relax_quotes: true, delimiter });
  return 'rows' in table ? { rows: table.rows.map(withLists) } : table;
}

/**
 * Joins the lines of a list that does not end on its first line, such as the output of NumPy and of `json.dumps` with
 * an indent.
 */
function onOneLine(text: string): string {
  const [first = ''] = text.trimStart().split(/\r?\n/, 1);
  const isOpen = first.startsWith('[') && first.split('[').length > first.split(']').length;
  if (!isOpen || !text.trimEnd().endsWith(']')) return text;
  const lines = text.split('\n').map((line) => line.trim());
  return lines
    .filter((line) => line !== '')
    .join(' ')
    .replaceAll('] [', '],[');
}

/** Returns a cell's value, or, of a number that is written in an unusual way, its text as a number of JSON. */
function writtenCell(text: string): CsvCell {
  // Python 3's `repr` of NumPy's numbers.
  const plain = text.replace(/^\s*np\.\w{1,20}\((.{1,80})\)\s*$/, '$1');
  const cell = cellOf(plain);
  const literal = plain.trim();
  const isUsual = typeof cell === 'string' || literal === String(cell) || literal === `${cell}.0`;
  return isUsual ? cell : (exactNumber(literal) as CsvCell);
}

/** Lists within each other. */
const MAX_BRACKETS = 3;

/** Joins the cells between brackets. Cells with unbalanced brackets are unchanged. */
function withLists(cells: CsvCell[]): CsvCell[] {
  if (!cells.some((cell) => typeof cell === 'string' && cell.includes('['))) return cells;
  const row: CsvCell[] = [];
  const open: unknown[][] = [row];
  for (const cell of cells) {
    const [, begins = '', inner = ''] = /^(\[{0,3})(.*)$/s.exec(typeof cell === 'string' ? cell.trim() : '') ?? [];
    const ends = open.length + begins.length > 1 ? (/\]{1,3}$/.exec(inner)?.[0] ?? '') : '';
    for (const _ of begins) {
      const list: unknown[] = [];
      open.at(-1)?.push(list);
      open.push(list);
    }
    if (typeof cell !== 'string' || (open.length === 1 && ends === '')) open.at(-1)?.push(cell);
    else for (const item of itemsOf(inner.slice(0, inner.length - ends.length))) open.at(-1)?.push(item);
    if (open.length - 1 > MAX_BRACKETS || ends.length >= open.length) return cells;
    open.length -= ends.length;
  }
  return open.length === 1 ? row : cells;
}

/** Returns the items between two brackets: Python's and JSON's have commas, and NumPy's numbers have blanks. */
export function itemsOf(text: string): CsvCell[] {
  const words = text.trim().split(/\s+/);
  const isNumPys = !text.includes(',') && words.every((word) => NUMBER.test(word));
  return (isNumPys ? words : text.split(',')).flatMap((item) => {
    const name = item.trim();
    const isQuoted = /^(["']).*\1$/s.test(name);
    return name === '' ? [] : [isQuoted ? name.slice(1, -1) : writtenCell(name)];
  });
}

/** Number of lines to check. A body of numbers begins with numbers. */
const SAMPLE_LINES = 20;

/** Whether a text without a content type consists of rows of numbers, such as a model's bare scores. */
export function looksLikeNumericCsv(text: string): boolean {
  const lines = text.trim().split(/\r?\n/, SAMPLE_LINES);
  const isNumeric = (cell: string): boolean => cell.trim() !== '' && Number.isFinite(Number(cell));
  return lines.every((line) => line.split(',').every(isNumeric));
}
