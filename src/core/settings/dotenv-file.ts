/** The user's `.env`: reads it, and makes the text of a new one. */

import { existsSync } from 'node:fs';
import { parse } from 'dotenv';
import { PermanentError } from '../errors/errors.ts';
import { readText } from '../errors/read-text.ts';

/** Reads the settings of a `.env` file. Returns no settings if the file does not exist. */
export const dotenvSettings = (file = '.env'): Record<string, string> =>
  existsSync(file) ? parse(readText(file, 'The file of settings')) : {};

/** Reads the `.env` of the working directory, or the file that `DOTENV_CONFIG_PATH` names. */
export const dotenvOfCommand = (): Record<string, string> => dotenvSettings(process.env.DOTENV_CONFIG_PATH || '.env');

/**
 * Makes the SDK and child processes use the region of `.env`, unless the environment has a region. @returns the region
 * of `.env`, if it is used
 */
export function useDotenvRegion(): string | undefined {
  const { AWS_REGION, AWS_DEFAULT_REGION } = process.env;
  const region = AWS_REGION || AWS_DEFAULT_REGION ? undefined : dotenvOfCommand().AWS_REGION || undefined;
  if (region !== undefined) process.env.AWS_REGION = region;
  return region;
}

/**
 * Refuses a deployment whose settings and whose AWS address belong to different environments.
 *
 * @throws PermanentError `MixedEnvironments`
 */
export function assertOneEnvironment(): void {
  const { INFERENCE_MONITOR_LOCAL: local, AWS_ENDPOINT_URL: url, STACK_PREFIX: prefix } = process.env;
  const { STACK_PREFIX: own = prefix } = dotenvOfCommand();
  if (!local || (url === local && own === prefix)) return;
  throw new PermanentError('MixedEnvironments', 'The environment of npm start is mixed with another one', {
    got:
      url === local
        ? `its emulator, and STACK_PREFIX=${own} in .env`
        : `its settings, and ${url || 'your AWS account'}`,
    expected: 'a new terminal, without the variables of .local/env',
  });
}

// ---------------------------------------------------------------------------------------------------- a new `.env`
// The text of `.env.example`, with values filled in.

/** A value in quotes that it does not contain, if it has a character that dotenv or a shell would interpret. */
function quoted(value: string): string {
  if (/^[\w./:@%+=,-]*$/.test(value)) return value;
  const quote = ["'", '"', '`'].find((mark) => !value.includes(mark)) ?? "'";
  return `${quote}${value}${quote}`;
}

/**
 * Fills values into the example: each replaces the line of its setting, which may be a comment.
 *
 * @throws PermanentError `DotenvImpossible` if a value cannot be written so that dotenv reads the same
 */
export function dotenvText(example: string, values: Readonly<Record<string, string>>): string {
  const lines = example.split('\n').map((line) => {
    const name = /^#?([A-Z0-9_]+)=/.exec(line)?.[1];
    const value = name === undefined ? undefined : values[name];
    return value === undefined ? line : `${name}=${quoted(value)}`;
  });
  const text = lines.join('\n');
  const read = parse(text);
  const lost = Object.entries(values).find(([name, value]) => read[name] !== value);
  if (lost === undefined) return text;
  throw new PermanentError('DotenvImpossible', `The value of ${lost[0]} cannot be written into a .env file`, {
    got: `${lost[1].length} characters`,
    expected: 'a value on one line, without one of the quotes \' " `',
  });
}
