/** Parses the comma separated values of a tabular model's request or reply. */
import { parse } from 'csv-parse/sync';
import { normalForm } from '../json.ts';

/** A number when a double represents the text exactly, else the text. */
export type Cell = string | number;

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
  // Programs write 17 digits of a double where 16 are enough: 0.10000000000000001 is 0.1. Nothing else is lost.
  const [whole = '', fraction = ''] = trimmed.replace('-', '').split(/[eE]/, 1).join('').split('.');
  const digits = `${whole}${fraction}`.replace(/^0+/, '').length;
  const isMeasurement = fraction !== '' && whole.length <= MAX_WHOLE_DIGITS && digits <= MAX_DOUBLE_DIGITS;
  return isMeasurement ? number : text;
}

/** Returns rows of cells, including a header row. Quoted cells are text. Never throws. */
export function parseCsv(text: string): { rows: Cell[][] } | { problem: string } {
  try {
    const rows = parse(text, {
      bom: true,
      relax_column_count: true,
      skip_empty_lines: true,
      cast: (value, context) => (context.quoting ? value : cellOf(value)),
    }) as Cell[][];
    return { rows };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

/** Number of lines to check. A body of numbers begins with numbers. */
const SAMPLE_LINES = 20;

/** Whether a text without a content type is rows of numbers, such as a model's bare scores. */
export function looksLikeNumericCsv(text: string): boolean {
  const lines = text.trim().split(/\r?\n/, SAMPLE_LINES);
  const isNumeric = (cell: string): boolean => cell.trim() !== '' && Number.isFinite(Number(cell));
  return lines.every((line) => line.split(',').every(isNumeric));
}
