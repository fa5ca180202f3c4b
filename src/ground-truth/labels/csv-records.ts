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

/** Collects lines into records. */
export class CsvRecords {
  readonly #delimiter: string;
  #open: TextLine[] = [];
  #chars = 0;
  #quoted = false;

  constructor(delimiter: string) {
    this.#delimiter = delimiter;
  }

  /** Yields the records that end with this line. */
  *add(next: TextLine): Generator<CsvRecord> {
    this.#open.push(next);
    this.#chars += next.text.length;
    this.#quoted = this.#isQuotedAfter(next.text);
    if (!this.#quoted) yield this.#close();
    else if (this.#open.length >= MAX_LINES || this.#chars > MAX_CHARS) yield* this.#giveUp('UnclosedQuote');
  }

  /** Yields the last record at the end of the file. */
  *end(): Generator<CsvRecord> {
    while (this.#open.length > 0) yield* this.#giveUp('CutOff');
  }

  /** The first line is not a record. Later lines may be records. */
  *#giveUp(name: string): Generator<CsvRecord> {
    const [first, ...rest] = this.#open;
    this.#reset();
    const problem = { name, message: 'a quote is opened in it and not closed' };
    yield { ...(first as TextLine), problem };
    for (const line of rest) yield* this.add(line);
  }

  #close(): CsvRecord {
    const [first, ...rest] = this.#open as [TextLine, ...TextLine[]];
    this.#reset();
    const at = { line: first.line, isCut: rest.at(-1)?.isCut ?? first.isCut };
    let { text, line: last } = first;
    for (const { text: more, line } of rest) {
      // The scanner leaves out blank lines, but here they are part of a text.
      text += `${'\n'.repeat(line - last)}${more}`;
      last = line;
    }
    if (!text.includes('"')) return { ...at, cells: text.split(this.#delimiter) };
    const options = { delimiter: this.#delimiter, relax_quotes: true, relax_column_count: true };
    try {
      return { ...at, cells: (parse(text, options)[0] ?? []) as string[] };
    } catch {
      return { ...at, problem: { name: 'NotALabel', message: 'its quotes are not those of CSV' } };
    }
  }

  #reset(): void {
    this.#open = [];
    this.#chars = 0;
    this.#quoted = false;
  }

  /** Follows the quotes of a line. One in the middle of a cell is a character like others. */
  #isQuotedAfter(text: string): boolean {
    let quoted = this.#quoted;
    if (!text.includes('"')) return quoted;
    let atStart = true;
    for (let at = 0; at < text.length; at += 1) {
      const isQuote = text[at] === '"';
      if (quoted && isQuote && text[at + 1] === '"') at += 1;
      else if (isQuote && (quoted || atStart)) quoted = !quoted;
      atStart = text[at] === this.#delimiter;
    }
    return quoted;
  }
}
