/** The person's own `.env`. */
import { existsSync, readFileSync } from 'node:fs';
import { parse } from 'dotenv';
import { projectPath } from '../project-root.ts';

/** The settings of a `.env`; none where there is no such file. */
export const dotenvSettings = (file = projectPath('.env')): Record<string, string> =>
  existsSync(file) ? parse(readFileSync(file)) : {};

/** The one that a command is run beside, or that `DOTENV_CONFIG_PATH` names. */
export const dotenvOfCommand = (): Record<string, string> => dotenvSettings(process.env.DOTENV_CONFIG_PATH || '.env');
