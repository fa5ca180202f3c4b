/** The program: its options, and the commands of the table, of which only the asked one is loaded. */
import { Command } from 'commander';
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
  const loadsAll = COMMANDS[asked]?.needsAll === true;
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
    for (const [name, entry] of Object.entries(entries)) {
      const command = loadsAll || name === asked ? await entry.load() : new Command(name);
      command.copyInheritedSettings(program);
      program.addCommand(command.description(entry.summary).helpGroup(heading));
    }
  }
  return program;
}
