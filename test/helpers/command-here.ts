/**
 * Commands in this process, as the entry runs them. Starting a process takes half a second of a CPU, so tests do it only for what
 * a process alone shows: signals, pipes, memory, and that the entry itself works.
 */
import { EXIT } from '../../bin/cli/output.ts';
import { failureText, isHelp, programFor } from '../../bin/program.ts';
import { withVariables } from './aws-answers.ts';
import type { CliResult } from './replay.ts';

export interface CommandOutput {
  stdout: string;
  stderr: string;
  /** As the entry would end the process: 2 if the command threw. */
  code: number;
  /** What it threw. */
  error?: Error;
}

/** Does a command's work, and captures what it prints. */
export async function outputOf(work: () => Promise<unknown>): Promise<CommandOutput> {
  const written = { stdout: '', stderr: '' };
  const capture = (name: 'stdout' | 'stderr') => {
    const take = (text: unknown): void => {
      written[name] += String(text);
    };
    const write = jest.spyOn(process[name], 'write').mockImplementation((text, ...rest: unknown[]) => {
      take(text);
      const done = rest.at(-1);
      if (typeof done === 'function') done();
      return true;
    });
    const log = jest
      .spyOn(console, name === 'stdout' ? 'log' : 'error')
      .mockImplementation((...texts: unknown[]) => take(`${texts.join(' ')}\n`));
    return [write, log];
  };
  const spies = [...capture('stdout'), ...capture('stderr')];
  try {
    await work();
    return { ...written, code: Number(process.exitCode ?? EXIT.done) };
  } catch (error) {
    return { ...written, code: EXIT.notDone, error: error as Error };
  } finally {
    process.exitCode = undefined;
    for (const spy of spies) spy.mockRestore();
  }
}

/** Runs the command line in this process, with these variables beside its own. */
export async function runHere(args: readonly string[], env: Record<string, string> = {}): Promise<CliResult> {
  const variables = { ...process.env, ...env } as Record<string, string>;
  const work = async () => (await programFor(args, '0.0.0')).parseAsync(args, { from: 'user' });
  const { error, ...output } = await withVariables(variables, () => outputOf(work));
  if (error === undefined) return output;
  const options = { debug: args.includes('--debug'), json: args.includes('--json') };
  const text = failureText(error, options);
  const code = isHelp(error) ? EXIT.done : EXIT.notDone;
  return { ...output, code, stderr: text === '' ? output.stderr : `${output.stderr}${text}\n` };
}
