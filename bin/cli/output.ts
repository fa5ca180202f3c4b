/** How commands print: data to stdout, as text or as JSON; everything else to stderr. */
import { styleText } from 'node:util';
import { Option } from 'commander';
import { columnsOf, wrapped } from '../../src/core/text/terminal-text.ts';
import { PLAIN, type Style } from '../../src/quality/rates-text.ts';
import { GATE_EXIT_CODES } from '../../src/replay/gate/types.ts';
import type { JsonOutputs } from '../json.ts';
import { INTERRUPTED } from './stop-signals.ts';

/** The option of every command that prints data. */
export const jsonOption = (what = 'print the result as JSON'): Option => new Option('--json', what);

/** A command's result as JSON text. */
export const jsonText = <C extends keyof JsonOutputs>(_command: C, value: JsonOutputs[C]): string =>
  `${JSON.stringify(value, null, 2)}\n`;

/** Prints a command's result as JSON. */
export const writeJson = <C extends keyof JsonOutputs>(command: C, value: JsonOutputs[C]): void => {
  process.stdout.write(jsonText(command, value));
};

export interface TextOptions {
  /** Columns. */
  width: number;
  style: Style;
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
  const width = stderr.isTTY === true ? columnsOf(stderr) : Number.POSITIVE_INFINITY;
  for (const part of wrapped(line, width)) stderr.write(`${part}\n`);
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
