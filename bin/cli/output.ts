/** The output of commands: data to stdout, as text or as JSON; everything else to stderr. */
import { styleText } from 'node:util';
import { type Page, pageText } from '../../src/core/text/page.ts';
import { columnsOf, PIPE, singleLine, type TextOptions } from '../../src/core/text/terminal-text.ts';
import { GATE_EXIT_CODES } from '../../src/replay/gate/types.ts';
import { option } from './options.ts';
import { startProgress } from './progress.ts';
import { INTERRUPTED } from './stop-signals.ts';

/** The option of every command that prints data. */
export const jsonOption = (what = 'print the result as JSON') => option('--json', what);

/** The subject of a command. */
export interface About {
  /** `null`: no stack was asked. */
  endpoint: string | null;
  /** Its STACK_PREFIX. */
  stack: string | null;
  /** MLflow's, of a command that reads traces. */
  experiment?: string;
}

/** The part of a command's output that follows its subject. */
export type Report<Output> = Omit<Output, keyof About>;

/** Returns the first line of a command's output. */
export function aboutLine({ endpoint, stack, experiment }: About): string {
  const read = experiment === undefined || experiment === endpoint ? '' : `experiment ${experiment}`;
  return singleLine([endpoint && `${endpoint} (stack ${stack})`, read].filter(Boolean).join(', '));
}

/**
 * Prints a command's result: with `--json` as JSON, else as a page. The command exports the type of the JSON as `Output`, from which
 * the schema in `schemas/` is generated, with the comments of the types: `UPDATE_SCHEMAS=1 npm run test:unit -- test/unit/bin/schemas`.
 *
 * @param about is included in JSON, and is the first line of the page
 *
 * @example
 *     print<FindOutput>(found, flags.json, page, about);
 */
export function print<T extends object>(value: T, json: boolean | undefined, page: Page, about?: About): void {
  const whole = [about && aboutLine(about), ...page];
  progress.end();
  process.stdout.write(json ? `${JSON.stringify({ ...about, ...value }, null, 2)}\n` : pageText(whole, terminal()));
}

/** Width and style of a terminal; a file or a pipe has no width and no colors. */
export function terminal(stream: NodeJS.WriteStream = process.stdout): TextOptions {
  if (stream.isTTY !== true) return PIPE;
  return { width: columnsOf(stream), style: (style, text) => styleText(style, text, { stream }) };
}

/** The progress of the command, on standard error. Printing the result ends it. */
export const progress = startProgress(process.stderr);

/** Prints a line for a person to standard error. */
export const notice = (line: string): void => progress.log(pageText([line], terminal(process.stderr)).trimEnd());

export const EXIT = {
  /** The command succeeded. */
  done: 0,
  /**
   * It succeeded, and found a condition that the caller asked about: a crossed threshold, a broken set-up, a failed
   * run.
   */
  found: 1,
  /** It failed: a wrong option, a missing stack, no permission. */
  notDone: 2,
  /** It succeeded, but the available data cannot decide a threshold. */
  undecided: GATE_EXIT_CODES['cannot-tell'],
  /** Ctrl-C interrupted it. */
  interrupted: INTERRUPTED,
} as const;
