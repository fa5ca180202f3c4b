/**
 * The program: its options, the commands of the table, of which only the asked one is loaded, and its errors as text.
 */
import { inspect } from 'node:util';
import { Command } from 'commander';
import { awsFailure } from '../../src/core/errors/aws-failures.ts';
import { useDotenvRegion } from '../../src/core/settings/dotenv-file.ts';
import { COMMANDS, GROUPS } from './commands.ts';

const HELP = `
inference-monitor <command> --help shows a command's options and examples. Settings are read from the environment and .env.`;

/**
 * Makes the program.
 *
 * @param words the arguments of the command line, without Node and script
 * @param version of the package
 */
export async function programFor(words: readonly string[], version: string): Promise<Command> {
  const [first, second] = words.filter((word) => !word.startsWith('-'));
  const asked = (first === 'help' ? second : first) ?? '';
  // It works on the options of all commands, which are therefore loaded.
  const loadsAll = asked === 'completion';
  const program = new Command('inference-monitor')
    .description('Traces, judges and replays what an Amazon SageMaker endpoint answers.')
    .version(version, '--version', 'print the version')
    .option('--debug', 'print the stack trace of an error')
    .option('--no-color', 'print without colors, as with the variable NO_COLOR')
    .configureHelp({ showGlobalOptions: true })
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
      const command = (loadsAll || name === asked ? await COMMANDS[name]?.() : undefined) ?? new Command(name);
      command.copyInheritedSettings(program);
      program.addCommand(command.description(summary).helpGroup(heading));
    }
  }
  return program;
}

// ---------------------------------------------------------------------------------------------------------- errors

interface FailureOptions {
  /** With the stack trace and the causes. */
  debug: boolean;
  /** As one line of JSON: `{"error": {"name", "message"}}`. */
  json: boolean;
}

/** Everything but line ends and tabs that a terminal would interpret. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this expression removes control characters
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** Describes why a command could not do what was asked. */
export function failureText(error: unknown, { debug, json }: FailureOptions): string {
  const failure = awsFailure(error);
  const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
  const said = failure ?? { name, message };
  const trace = debug ? inspect(error) : undefined;
  if (json) return JSON.stringify({ error: { ...said, ...(trace === undefined ? {} : { trace }) } });
  return `${said.name}: ${said.message}${trace === undefined ? '' : `\n${trace}`}`.replace(CONTROLS, ' ');
}
