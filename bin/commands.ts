/** The tables of the commands. `--help` is printed from the first alone; a command's own files are loaded when it is used. */
import type { Command } from 'commander';
import groups from './commands.json' with { type: 'json' };

/**
 * One-line descriptions of the commands, by their headings in `--help`. They are also the description in the commands'
 * own help.
 */
export const GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = groups;

/** Loaders of all commands, by name. Each command is the default export of the file with its name. */
export const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = Object.fromEntries(
  Object.values(GROUPS)
    .flatMap(Object.keys)
    .map((name) => [name, async () => (await import(`./commands/${name}.ts`)).default()]),
);
