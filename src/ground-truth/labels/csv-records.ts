/** The records of a CSV file, of which each can span lines. A record that cannot be read costs its first line, and no other. */
import { parse } from 'csv-parse/sync';
import type { LabelProblem } from './label-record.ts';

/** A line that is not blank, as text. */
export interface TextLine {
  text: string;
  /** Line number, from 1. */
  line: number;
  /** Whether its line ending is missing, so that the file may have been cut in it. */
  isCut: boolean;
}

export type CsvRecord = Omit<TextLine, 'text'> & ({ cells: string[] } | { problem: LabelProblem });

/** A quoted text is not longer; a quote that is never closed would otherwise swallow the file. */
const MAX_LINES = 100;
const MAX_CHARS = 1024 * 1024;

/** Finds which of the usual delimiters a header has. */
export const delimiterOf = (header: string): string =>
  [',', ';', '\t', '|'].toSorted((a, b) => header.split(b).length - header.split(a).length)[0] as string;

export type CsvRecords = ReturnType<typeof csvRecords>;

/** Collects lines into records. */
export function csvRecords(delimiter: string) {
  let open: TextLine[] = [];
  let chars = 0;
  let quoted = false;
  const takeLines = (): [TextLine, ...TextLine[]] => {
    const lines = open as [TextLine, ...TextLine[]];
    [open, chars, quoted] = [[], 0, false];
    return lines;
  };
  /** The first line is not a record. Later lines may be records. */
  function* giveUp(name: string): Generator<CsvRecord> {
    const [first, ...rest] = takeLines();
    yield { ...first, problem: { name, message: 'a quote is opened in it and not closed' } };
    for (const line of rest) yield* add(line);
  }
  /** Yields the records that end with this line. */
  function* add(next: TextLine): Generator<CsvRecord> {
    open.push(next);
    chars += next.text.length;
    quoted = isQuotedAfter(next.text, delimiter, quoted);
    if (!quoted) yield recordOf(takeLines(), delimiter);
    else if (open.length >= MAX_LINES || chars > MAX_CHARS) yield* giveUp('UnclosedQuote');
  }
  /** Yields the last record at the end of the file. */
  function* end(): Generator<CsvRecord> {
    while (open.length > 0) yield* giveUp('CutOff');
  }
  return { add, end };
}

function recordOf([first, ...rest]: [TextLine, ...TextLine[]], delimiter: string): CsvRecord {
  const at = { line: first.line, isCut: rest.at(-1)?.isCut ?? first.isCut };
  let { text, line: last } = first;
  for (const { text: more, line } of rest) {
    // The scanner leaves out blank lines, but here they are part of a text.
    text += `${'\n'.repeat(line - last)}${more}`;
    last = line;
  }
  if (!text.includes('"')) return { ...at, cells: text.split(delimiter) };
  try {
    const [cells = []] = parse(text, { delimiter, relax_quotes: true, relax_column_count: true });
    return { ...at, cells: cells as string[] };
  } catch {
    return { ...at, problem: { name: 'NotALabel', message: 'its quotes are not those of CSV' } };
  }
}

/** Follows the quotes of a line. A quote in the middle of a cell is a character like others. */
function isQuotedAfter(text: string, delimiter: string, before: boolean): boolean {
  let quoted = before;
  if (!text.includes('"')) return quoted;
  let atStart = true;
  for (let at = 0; at < text.length; at += 1) {
    const isQuote = text[at] === '"';
    if (quoted && isQuote && text[at + 1] === '"') at += 1;
    else if (isQuote && (quoted || atStart)) quoted = !quoted;
    atStart = text[at] === delimiter;
  }
  return quoted;
}
