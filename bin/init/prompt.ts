/** Asks a person on a terminal, line by line. */
import { createInterface, type Interface } from 'node:readline/promises';
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

export class Prompt {
  readonly #lines: Interface;
  readonly #output: NodeJS.WritableStream;
  readonly #stop = new AbortController();

  constructor(input: NodeJS.ReadableStream, output: NodeJS.WritableStream, terminal = true) {
    this.#output = output;
    this.#lines = createInterface({ input, output, terminal });
    // Ctrl-C and Ctrl-D.
    this.#lines.on('SIGINT', () => this.#stop.abort());
    this.#lines.on('close', () => this.#stop.abort());
  }

  say(line: string): void {
    this.#output.write(`${line}\n`);
  }

  /** Asks until the answer is valid. @returns '' only for an optional question. @throws `AbortError` on Ctrl-C and Ctrl-D */
  async ask({ text, choices = [], initial, optional = false, fault }: InitQuestion): Promise<string> {
    this.say('');
    for (const [index, { value, label = value }] of choices.entries()) this.say(`  ${index + 1}) ${singleLine(label)}`);
    const enter = initial === undefined ? (optional ? ' (Enter: none)' : '') : ` (Enter: ${singleLine(initial)})`;
    for (;;) {
      const given = (await this.#lines.question(`${text}${enter}: `, { signal: this.#stop.signal })).trim();
      const chosen = /^\d{1,3}$/.test(given) ? choices[Number(given) - 1]?.value : undefined;
      const value = chosen ?? (given || (initial ?? ''));
      if (value === '' && optional) return '';
      const wrong = value === '' ? 'An answer is required.' : fault(value);
      if (wrong === undefined) return value;
      this.say(`  ${singleLine(wrong)}`);
    }
  }

  close(): void {
    this.#lines.close();
  }
}

/** @throws PermanentError `NoTerminal` */
export function promptOnTerminal({ stdin, stderr }: Pick<NodeJS.Process, 'stdin' | 'stderr'> = process): Prompt {
  if (stdin.isTTY && stderr.isTTY) return new Prompt(stdin, stderr);
  const expected = '--yes with the settings as flags: inference-monitor init --help';
  const facts = { got: 'no terminal to ask on', expected };
  throw new PermanentError('NoTerminal', 'The settings cannot be asked for', facts);
}
