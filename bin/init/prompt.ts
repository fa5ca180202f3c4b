/** Asks a person on a terminal, line by line. */
import { createInterface } from 'node:readline/promises';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { singleLine } from '../../src/core/text/terminal-text.ts';

export interface Choice {
  value: string;
  /** Text shown to the user. Default: the value. */
  label?: string;
}

export interface InitQuestion {
  text: string;
  /** Offered by number. Any other answer is taken as a value of its own. */
  choices?: readonly Choice[];
  /** The answer of an empty line. Without it, and if not optional, the question is asked again. */
  initial?: string | undefined;
  optional?: boolean;
  /** Describes the fault of a value. Returns `undefined` if it is valid. */
  fault(value: string): string | undefined;
}

export type Prompt = ReturnType<typeof openPrompt>;

export function openPrompt(input: NodeJS.ReadableStream, output: NodeJS.WritableStream, terminal = true) {
  const lines = createInterface({ input, output, terminal });
  const stop = new AbortController();
  // Ctrl-C and Ctrl-D.
  for (const event of ['SIGINT', 'close']) lines.on(event, () => stop.abort());
  const say = (line: string): void => void output.write(`${line}\n`);

  /** Asks until the answer is valid. @returns '' only for an optional question. @throws `AbortError` on Ctrl-C and Ctrl-D */
  async function ask({ text, choices = [], initial, optional = false, fault }: InitQuestion): Promise<string> {
    say('');
    for (const [index, { value, label = value }] of choices.entries()) say(`  ${index + 1}) ${singleLine(label)}`);
    const enter = initial === undefined ? (optional ? ' (Enter: none)' : '') : ` (Enter: ${singleLine(initial)})`;
    for (;;) {
      const given = (await lines.question(`${text}${enter}: `, { signal: stop.signal })).trim();
      const chosen = /^\d{1,3}$/.test(given) ? choices[Number(given) - 1]?.value : undefined;
      const value = chosen ?? (given || (initial ?? ''));
      if (value === '' && optional) return '';
      const wrong = value === '' ? 'An answer is required.' : fault(value);
      if (wrong === undefined) return value;
      say(`  ${singleLine(wrong)}`);
    }
  }

  return { say, ask, close: () => lines.close() };
}

/** @throws PermanentError `NoTerminal` */
export function promptOnTerminal({ stdin, stderr }: Pick<NodeJS.Process, 'stdin' | 'stderr'> = process): Prompt {
  if (stdin.isTTY && stderr.isTTY) return openPrompt(stdin, stderr);
  const expected = '--yes with the settings as flags: inference-monitor init --help';
  const facts = { got: 'no terminal to ask on', expected };
  throw new PermanentError('NoTerminal', 'The settings cannot be asked for', facts);
}
