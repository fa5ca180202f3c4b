/**
 * The program: its options, the commands of the table, of which only the asked one is loaded, and its errors as text.
 */
import { inspect } from 'node:util';
import { Command, CommanderError } from 'commander';
import { awsFailure } from '../src/core/errors/aws-failures.ts';
import { PermanentError } from '../src/core/errors/errors.ts';
import { useDotenvRegion } from '../src/core/settings/dotenv-file.ts';
import { COMMANDS, GROUPS } from './commands.ts';

const HELP = `
inference-monitor <command> --help shows a command's options and examples.
Settings are read from the environment and .env.`;

/** Creates the program. @param args the arguments of the command line, without Node and script */
export async function programFor(args: readonly string[], version: string): Promise<Command> {
  const [first, second] = args.filter((arg) => !arg.startsWith('-'));
  const asked = first === 'help' ? second : first;
  const program = new Command('inference-monitor')
    .description('Traces, judges and replays what an Amazon SageMaker endpoint answers.')
    .version(version, '--version', 'print the version')
    .option('--debug', 'print the stack trace of an error')
    .option('--no-color', 'print without colors, as with the variable NO_COLOR')
    .configureHelp({ showGlobalOptions: true, minWidthToWrap: 30 })
    // All errors are printed in one form, when they have ended the program.
    .configureOutput({ outputError: () => {} })
    .exitOverride()
    // The group of the command `help`, which Commander adds.
    .commandsGroup('Set up:')
    .hook('preAction', async (_, command) => {
      useDotenvRegion();
      await (await import('./acts-on.ts')).sayPlaces(command);
    })
    .addHelpText('after', HELP);
  for (const [heading, entries] of Object.entries(GROUPS)) {
    for (const [name, summary] of Object.entries(entries)) {
      const command = (name === asked ? await COMMANDS[name]?.() : undefined) ?? new Command(name);
      command.copyInheritedSettings(program);
      program.addCommand(command.description(summary).helpGroup(heading));
    }
  }
  return program;
}

// ---------------------------------------------------------------------------------------------------------- errors

/** Characters that a terminal would interpret, except line ends and tabs. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this expression removes control characters
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** The output of every command with `--json` on standard error if it could not do its work. */
export interface ErrorOutput {
  error: { name: string; message: string /** With `--debug`. */; trace?: string | undefined };
}

/** Describes why a command failed. Returns an empty text for help and the version, which end the program too. */
export function failureText(thrown: unknown, { debug, json }: { debug: boolean; json: boolean }): string {
  if (thrown instanceof CommanderError && /^commander\.(?:help|version)/.test(thrown.code)) return '';
  const error = thrown instanceof CommanderError ? wrongArguments(thrown) : thrown;
  const { name, message: said } = awsFailure(error) ?? (error instanceof Error ? error : new Error(String(error)));
  // Lines are a list, perhaps behind a colon.
  const lines = said.split('\n').map((line) => line.trim());
  const message = lines.filter(Boolean).join('; ').replaceAll(':; ', ': ');
  const trace = debug ? inspect(error) : undefined;
  if (json) return JSON.stringify({ error: { name, message, trace } } satisfies ErrorOutput);
  return `${name}: ${message}${trace === undefined ? '' : `\n${trace}`}`.replace(CONTROLS, ' ');
}

/** The parser's own error, such as `error: unknown option '--form'`, with a line `(Did you mean --from?)`. */
const wrongArguments = ({ message }: CommanderError): PermanentError =>
  new PermanentError('InvalidCommandLine', message.replace(/^error: /, '').replaceAll('\n', ' '));

/** Whether the program ended because help or the version was requested. */
export const isHelp = (error: unknown): boolean => error instanceof CommanderError && error.exitCode === 0;
