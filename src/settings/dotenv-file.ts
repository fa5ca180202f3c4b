/** The user's `.env`. */
import { existsSync, readFileSync } from 'node:fs';
import { parse } from 'dotenv';

/** Reads the settings of a `.env`; none if the file does not exist. */
export const dotenvSettings = (file = '.env'): Record<string, string> =>
  existsSync(file) ? parse(readFileSync(file)) : {};

/** Reads the `.env` of the working directory, or the file that `DOTENV_CONFIG_PATH` names. */
export const dotenvOfCommand = (): Record<string, string> => dotenvSettings(process.env.DOTENV_CONFIG_PATH || '.env');

/** The region of `.env`, if the environment names none. */
export function dotenvRegion(): string | undefined {
  const { AWS_REGION, AWS_DEFAULT_REGION } = process.env;
  return AWS_REGION || AWS_DEFAULT_REGION ? undefined : dotenvOfCommand().AWS_REGION || undefined;
}

/** Lets the SDK, and what this process starts, use the region of `.env` where the environment names none. */
export function useDotenvRegion(): void {
  const region = dotenvRegion();
  if (region !== undefined) process.env.AWS_REGION = region;
}
