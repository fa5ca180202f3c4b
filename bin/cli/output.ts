/** How commands print: data to stdout, as text or as JSON; everything else to stderr. */
import { styleText } from 'node:util';
import {
  columnsOf,
  PLAIN,
  printable,
  type Style,
  singleLine,
  type TextOptions,
  tableText,
  wrapped,
  wrappedText,
} from '../../src/core/text/terminal-text.ts';
import { GATE_EXIT_CODES } from '../../src/replay/gate/types.ts';
import { option } from './options.ts';
import { pageText, type Page as Shown } from './page.ts';
import { INTERRUPTED } from './stop-signals.ts';

/** The option of every command that prints data. */
export const jsonOption = (what = 'print the result as JSON') => option('--json', what);

/** A command's result as JSON text. */
export const jsonText = <T>(value: T): string => `${JSON.stringify(value, null, 2)}\n`;

/** What a command is about. */
export interface About {
  /** `null`: no stack was asked. */
  endpoint: string | null;
  /** Its STACK_PREFIX. */
  stack: string | null;
  /** MLflow's, of a command that reads traces. */
  experiment?: string;
}

/** The first line of what a command prints. */
export function aboutLine({ endpoint, stack, experiment }: About): string {
  const read = experiment === undefined || experiment === endpoint ? '' : `experiment ${experiment}`;
  return singleLine([endpoint && `${endpoint} (stack ${stack})`, read].filter(Boolean).join(', '));
}

type TextFor = (out: TextOptions) => string;

/**
 * Prints a command's result: with `--json` as JSON, else as a page. Its type `T` is listed in `bin/json.ts`, which makes its schema.
 *
 * @param about is in JSON too, and the first line of the page
 */
export function print<T extends object>(
  value: T,
  json: boolean | undefined,
  page: Shown | TextFor,
  about?: About,
): void {
  const text = () =>
    typeof page === 'function'
      ? (about === undefined ? '' : `${aboutLine(about)}\n`) + page(terminal())
      : pageText([about && aboutLine(about), ...page], terminal());
  process.stdout.write(json ? jsonText({ ...about, ...value }) : text());
}

/** Width and style of the terminal; a file or a pipe has no width and no colors. */
export function terminal(): TextOptions {
  const { stdout } = process;
  if (stdout.isTTY !== true) return { width: Number.POSITIVE_INFINITY, style: PLAIN };
  const width = columnsOf(stdout);
  return { width, style: (style, text) => styleText(style, text, { stream: stdout }) };
}

/** Prints a line for a person to standard error, broken between words on a terminal. */
export function notice(line: string): void {
  const { stderr } = process;
  stderr.write(wrappedText([line], stderr.isTTY === true ? columnsOf(stderr) : Number.POSITIVE_INFINITY));
}

/** Collects the text of a report: each line is broken at the width, without what a terminal would interpret. */
export class Page {
  readonly #lines: string[] = [];
  readonly #out: TextOptions;

  constructor(out: TextOptions) {
    this.#out = out;
  }

  add(text: string, style?: Parameters<Style>[0]): void {
    const { width, style: styled } = this.#out;
    for (const line of wrapped(printable(text), width)) this.#lines.push(style ? styled(style, line) : line);
  }

  /** A heading, with an empty line above it. */
  section(title: string): void {
    if (this.#lines.length > 0) this.#lines.push('');
    this.add(title, 'bold');
  }

  /** A heading with its lines; nothing without lines. */
  list(title: string, lines: readonly string[]): void {
    if (lines.length > 0) this.section(`── ${title} ──`);
    for (const line of lines) this.add(line);
  }

  table(head: readonly string[], rows: readonly (readonly string[])[]): void {
    const cells = rows.map((row) => row.map(singleLine));
    if (rows.length > 0) this.#lines.push(...tableText(head, cells, this.#out).trimEnd().split('\n'));
  }

  text(): string {
    return this.#lines.map((line) => `${line}\n`).join('');
  }
}

/** An instant in ISO 8601 as people read it, to the second. */
export const instantText = (iso: string): string => iso.slice(0, 19).replace('T', ' ');

/** A price of cents needs more digits than one of dollars. */
export const dollars = (usd: number | null): string =>
  usd === null ? 'an unknown amount' : `$${usd.toFixed(usd !== 0 && usd < 1 ? 4 : 2)}`;

const MB = 1e6;
export const megabytes = (bytes: number): string =>
  bytes < MB ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / MB).toFixed(1)} MB`;

export const EXIT = {
  /** The command did what was asked. */
  done: 0,
  /** It did, and found what the caller asked to be told of: a crossed threshold, a broken set-up, a run that failed. */
  found: 1,
  /** It could not do it: a wrong option, a missing stack, no permission. */
  notDone: 2,
  /** It did, and the data at hand cannot decide a threshold. */
  undecided: GATE_EXIT_CODES['cannot-tell'],
  /** It was interrupted by Ctrl-C. */
  interrupted: INTERRUPTED,
} as const;
