/**
 * Decides whether the first row of a CSV is a header: by the setting CSV_HEADER, the number of inputs, or the rows
 * alone.
 */
import { type CsvCell, mayBeDecimals } from '../payload/csv.ts';
import type { Payload } from '../types.ts';

/** Names of the column with the prediction, such as AutoGluon's `{label}_pred`, or of a class. */
const VALUES = /^(?:(?:.+_)?pred|.+_proba|y_?hat|predict(?:ion|ed(?:[_ ].+)?)?|(?:scored[_ ])?label|class(?:_name)?)$/i;
/**
 * Names of predictions. A class may have such a name next to other classes with such names: `high_score`, `low_score`.
 */
const KNOWN =
  /^(?:preds?|predict\w*|probs?|probas?|probability|probabilities)(?:[_ .].*)?$|^(?:.+[_ ])?(?:preds?|predict(?:ed|ions?)|probs?|probas?|probability|probabilities|scores?|labels?|confidence)$|^(?:class(?:es)?|class_(?:id|name)|y_?(?:hat|pred)|outputs?|results?)$/i;
/** Spellings of a missing number. */
const NO_VALUE = /^(?:nan?|n\/a|null|none|[+-]?inf\w*|)$/i;
/** A cell that is the beginning of a list, of Python's tuples too. */
const OPEN_LIST = /^\s*[[(][^\])]*$/;
const DELIMITED = /\d[;\t]|[;\t]-?\d/;
/** Text that is a value where all others of its column are numbers: a percentage, a date, a flag. */
const VALUE = /^(?:[^\p{L}\d]*\d[^\p{L}]*|true|false)$/iu;

/** Returns the text of a cell; `0` for every number, since all numbers are rated alike. */
const textOf = (cell: CsvCell): string => (typeof cell === 'string' ? cell.trim() : '0');
const isKnown = (cell: CsvCell = ''): boolean => KNOWN.test(textOf(cell));
const isWord = (cell: CsvCell): boolean =>
  /\p{L}/u.test(textOf(cell)) && !NO_VALUE.test(textOf(cell)) && !VALUE.test(textOf(cell));
/** Whether a cell may be a name. pandas leaves the name of the index empty, and numbers unnamed columns 0, 1, …. */
const isName = (cell: CsvCell): boolean => isWord(cell) || textOf(cell) === '' || Number.isInteger(cell);

/** Whether the first row has a word above numbers, or a name of predictions that no other row has. */
function hasHeader([first = [], ...rows]: readonly CsvCell[][]): boolean {
  if (rows.length === 0 || !first.every(isName)) return false;
  const areWords = first.every((cell) => !Number.isInteger(cell));
  return first.some((name, at) => {
    if (isKnown(name) && !rows.some((row) => isKnown(row[at]))) return true;
    if (!areWords || !isWord(name)) return false;
    const values = rows.map((row) => textOf(row[at] ?? '')).filter((text) => !NO_VALUE.test(text));
    return values.length > 0 && values.every((text) => VALUE.test(text));
  });
}

/**
 * Returns the header that CSV_HEADER removes from a reply: a first row with words, or a row more than inputs.
 *
 * @param inputs number of rows of the request, if known. If the reply has as many rows of words, it has no header.
 */
export function headerOf(rows: readonly CsvCell[][], inputs?: number): string[] | undefined {
  const [first = []] = rows;
  if (rows.length < 2 || !first.every(isName)) return undefined;
  const isHeader = rows.length - 1 === inputs || (rows.length === inputs ? hasHeader(rows) : first.some(isWord));
  return isHeader ? first.map(String) : undefined;
}

/** Whether a header has a name for the prediction. Each line below it then belongs to one input. */
export const namesPrediction = (header: readonly string[] = []): boolean => header.some((name) => VALUES.test(name));

const rowsOf = (side: Payload | undefined): CsvCell[][] => (side?.kind === 'csv' ? (side.value as CsvCell[][]) : []);
const isNumbered = ([first = [], ...others]: readonly CsvCell[][]): boolean =>
  others.length > 0 && first.every((cell, at) => cell === at);

/** Returns why the rows of a reply are not its predictions; `undefined` if they are. */
export function whyMoved(request: Payload | undefined, reply: Payload, csvHeader = false): string | undefined {
  const rows = rowsOf(reply);
  const texts = rows.flat().filter((cell) => typeof cell === 'string');
  if (texts.some((text) => OPEN_LIST.test(text))) return 'the reply has a list whose brackets do not match';
  if (texts.some((text) => DELIMITED.test(text))) return 'the reply has another delimiter than the comma';
  const isOfTwo = rowsOf(request).length === 2 * rows.length;
  if (rows[0]?.length === 2 && !isOfTwo && mayBeDecimals(reply.text ?? ''))
    return 'each line of the reply may be two numbers, or one with a decimal comma';
  if (csvHeader || rows.length < 2) return undefined;
  if (hasHeader(rows)) return 'the reply begins with a header, and CSV_HEADER is not set';
  const mayBeNames = isNumbered(rows) || rows[0]?.every(isWord);
  const isAnswered = mayBeNames && hasHeader(rowsOf(request));
  return isAnswered ? 'the request begins with a header, and CSV_HEADER is not set' : undefined;
}

/** Whether a first row of 0, 1, … may be names from pandas or a prediction: with CSV_HEADER, or above fractions. */
export const mayBeNumbered = (rows: readonly CsvCell[][], csvHeader: boolean): boolean =>
  isNumbered(rows) && (csvHeader || !rows.slice(1).some(([cell]) => Number.isInteger(cell)));
