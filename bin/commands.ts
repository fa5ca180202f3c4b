/** The tables of the commands. `--help` is printed from the first alone; a command's own files are loaded when it is used. */
import type { Command } from 'commander';
import groups from './commands.json' with { type: 'json' };

/** What the commands do, in one line each, by their headings in `--help`: the description in their own help, too. */
export const GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = groups;

/** How all commands are loaded, by name: each is what the file of its name exports. */
export const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = Object.fromEntries(
  Object.values(GROUPS)
    .flatMap(Object.keys)
    .map((name) => [name, async () => (await import(`./commands/${name}.ts`)).default()]),
);
