/** The user's `.env`. */
import { existsSync, readFileSync } from 'node:fs';
import { parse } from 'dotenv';

/** Reads the settings of a `.env`; none if the file does not exist. */
export const dotenvSettings = (file = '.env'): Record<string, string> =>
  existsSync(file) ? parse(readFileSync(file)) : {};

/** Reads the `.env` of the working directory, or the file that `DOTENV_CONFIG_PATH` names. */
export const dotenvOfCommand = (): Record<string, string> => dotenvSettings(process.env.DOTENV_CONFIG_PATH || '.env');
