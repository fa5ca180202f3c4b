/** How commands print: data to stdout, as text or as JSON; everything else to stderr. */
import { styleText } from 'node:util';
import { type Page, pageText } from '../../src/core/text/page.ts';
import { columnsOf, PIPE, singleLine, type TextOptions } from '../../src/core/text/terminal-text.ts';
import { GATE_EXIT_CODES } from '../../src/replay/gate/types.ts';
import { option } from './options.ts';
import { INTERRUPTED } from './stop-signals.ts';

/** The option of every command that prints data. */
export const jsonOption = (what = 'print the result as JSON') => option('--json', what);

/** A command's result as JSON text. */
const jsonText = <T>(value: T): string => `${JSON.stringify(value, null, 2)}\n`;

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

/**
 * Prints a command's result: with `--json` as JSON, else as a page. Its type `T` is listed in `bin/json.ts`, which makes its schema.
 *
 * @param about is in JSON too, and the first line of the page
 */
export function print<T extends object>(value: T, json: boolean | undefined, page: Page, about?: About): void {
  const whole = [about && aboutLine(about), ...page];
  process.stdout.write(json ? jsonText({ ...about, ...value }) : pageText(whole, terminal()));
}

/** Width and style of a terminal; a file or a pipe has no width and no colors. */
export function terminal(stream: NodeJS.WriteStream = process.stdout): TextOptions {
  if (stream.isTTY !== true) return PIPE;
  return { width: columnsOf(stream), style: (style, text) => styleText(style, text, { stream }) };
}

/** Prints a line for a person to standard error. */
export function notice(line: string): void {
  process.stderr.write(pageText([line], terminal(process.stderr)));
}

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
