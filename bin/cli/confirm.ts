/** Asks for confirmation before work that costs money or takes long. */
import { createInterface } from 'node:readline/promises';
import { PermanentError } from '../../src/core/errors/errors.ts';

/**
 * Returns whether the user agrees. Asks only on a terminal.
 *
 * @param what ends in a question mark
 * @param yes the option `--yes`
 * @throws PermanentError `NotConfirmed` without a terminal
 *
 * @example
 *     if (!(await confirmed('Delete 12 traces?', flags.yes))) return;
 */
export async function confirmed(what: string, yes: boolean | undefined): Promise<boolean> {
  if (yes) return true;
  const { stdin: input, stderr: output } = process;
  if (!input.isTTY || !output.isTTY) {
    throw new PermanentError('NotConfirmed', what, { got: 'no terminal to ask on', expected: '--yes' });
  }
  const lines = createInterface({ input, output });
  try {
    const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
    const answer = await Promise.race([lines.question(`${what} [y/N] `), closed]);
    return ['y', 'yes'].includes(answer.trim().toLowerCase());
  } finally {
    lines.close();
  }
}
