/** Whether the first row of a CSV is a header: by the setting CSV_HEADER, the number of inputs, or the rows alone. */
import type { CsvCell } from '../payload/csv.ts';

/** Names of the column with the prediction, such as AutoGluon's `{label}_pred`. */
const VALUES =
  /^(?:(?:.+_)?pred|y_?(?:hat|pred)|predict(?:ion|ed(?:[_ ].+)?)?|label|class|class_(?:name|label)|scored[_ ]labels?)$/i;
/** Names of what a model replies. A class may have such a name next to others that have one: `high_score`, `low_score`. */
const KNOWN =
  /^(?:preds?|predict\w*|probs?|probas?|probability|probabilities)(?:[_ .].*)?$|^(?:.+[_ ])?(?:preds?|predict(?:ed|ions?)|probs?|probas?|probability|probabilities|scores?|labels?|confidence)$|^(?:class(?:es)?|class_(?:id|name)|y_?(?:hat|pred)|outputs?|results?)$/i;
/** What stands for a missing number. */
const NO_VALUE = /^(?:nan?|n\/a|null|none|[+-]?inf\w*|)$/i;
/** Text that is a value where all others of its column are numbers: a percentage, a date, a flag. */
const VALUE = /^(?:[^\p{L}\d]*\d[^\p{L}]*|true|false)$/iu;

const textOf = (cell: CsvCell | undefined): string | undefined => (typeof cell === 'string' ? cell.trim() : undefined);
const isKnown = (cell: CsvCell | undefined): boolean => KNOWN.test(textOf(cell) ?? '');
function isWord(cell: CsvCell | undefined): boolean {
  const text = textOf(cell) ?? '';
  return /\p{L}/u.test(text) && !NO_VALUE.test(text) && !VALUE.test(text);
}
/** Whether a cell may be a name. pandas leaves the index without one, and names columns 0, 1, … that have none. */
const isName = (cell: CsvCell): boolean => isWord(cell) || textOf(cell) === '' || Number.isInteger(cell);

/** Whether the first row has a word above numbers, or a name of predictions as no other row has. */
export function hasHeader([first = [], ...rows]: readonly CsvCell[][]): boolean {
  if (rows.length === 0 || !first.every(isName)) return false;
  const areWords = first.every((cell) => !Number.isInteger(cell));
  return first.some((name, at) => {
    if (isKnown(name) && !rows.some((row) => isKnown(row[at]))) return true;
    if (!areWords || !isWord(name)) return false;
    const values = rows.map((row) => row[at] ?? '').filter((cell) => !NO_VALUE.test(textOf(cell) ?? '0'));
    return values.length > 0 && values.every((cell) => VALUE.test(textOf(cell) ?? '0'));
  });
}

/**
 * Returns the header that CSV_HEADER leaves out of a reply: a first row with words, or one row more than inputs.
 *
 * @param inputs number of rows of the request, where that is known. As many rows of words have no header.
 */
export function headerOf(rows: readonly CsvCell[][], inputs?: number): string[] | undefined {
  const [first = []] = rows;
  if (rows.length < 2 || !first.every(isName)) return undefined;
  const isHeader = rows.length - 1 === inputs || (rows.length === inputs ? hasHeader(rows) : first.some(isWord));
  return isHeader ? first.map(String) : undefined;
}

/** Whether a header has the name of the prediction. Each line below it is then of one input. */
export const namesPrediction = (header: readonly string[] = []): boolean => header.some((name) => VALUES.test(name));

/** Returns why the first row of a reply may be a header that is not left out; `undefined` if it is none. @param isCounted the request's rows are known */
export function whyHeader(
  reply: readonly CsvCell[][],
  request: readonly CsvCell[][],
  isCounted: boolean,
  csvHeader: boolean,
): string | undefined {
  const [first = [], ...rows] = reply;
  const isNumbered = first.length > 0 && first.every((cell, at) => cell === at);
  if (!csvHeader && hasHeader(reply)) return 'the reply begins with a header, and CSV_HEADER is not set';
  if (!csvHeader && (isNumbered || first.every(isWord)) && hasHeader(request))
    return 'the request begins with a header, and CSV_HEADER is not set';
  const isApart = csvHeader || !rows.some(([cell]) => Number.isInteger(cell));
  const mayBeNames = !isCounted && rows.length > 0 && isNumbered && isApart;
  return mayBeNames ? 'the first row of the reply may be a header of numbers, or a prediction' : undefined;
}
