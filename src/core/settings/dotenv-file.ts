/** The user's `.env`. */
import { existsSync, readFileSync } from 'node:fs';
import { parse } from 'dotenv';
import { PermanentError } from '../errors/errors.ts';

/** Reads the settings of a `.env`; none if the file does not exist. */
export const dotenvSettings = (file = '.env'): Record<string, string> =>
  existsSync(file) ? parse(readFileSync(file)) : {};

/** Reads the `.env` of the working directory, or the file that `DOTENV_CONFIG_PATH` names. */
export const dotenvOfCommand = (): Record<string, string> => dotenvSettings(process.env.DOTENV_CONFIG_PATH || '.env');

/** Lets the SDK, and what this process starts, use the region of `.env` where the environment names none. @returns that region */
export function useDotenvRegion(): string | undefined {
  const { AWS_REGION, AWS_DEFAULT_REGION } = process.env;
  const region = AWS_REGION || AWS_DEFAULT_REGION ? undefined : dotenvOfCommand().AWS_REGION || undefined;
  if (region !== undefined) process.env.AWS_REGION = region;
  return region;
}

/**
 * Refuses a deployment whose settings and whose AWS are of two environments.
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
