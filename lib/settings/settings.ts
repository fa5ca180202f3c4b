/**
 * The stack's settings: `.env` and the environment (which wins), checked at synth. One error lists every setting that
 * is wrong or missing, with what was got and what is allowed. `.env.example` documents each of them.
 */
import { existsSync, readFileSync } from 'node:fs';
import { parse as parseDotenv } from 'dotenv';
import { shown } from '../../src/settings/kinds.ts';
import { type CheckedSettings, REQUIRED, settingsSchema } from '../../src/settings/schema.ts';
import { slips } from '../../src/settings/slips.ts';
import { doubtsAbout, type WrongSetting, wrongInLength, wrongTogether } from './checks.ts';

export interface Settings extends CheckedSettings {
  /** Ends with `/`, so that `my-endpoint` does not match `my-endpoint-v2`. */
  DATA_CAPTURE_S3_PREFIX: string;
  MLFLOW_EXPERIMENT_NAME: string;
}

/** Names of all settings, the required ones first. */
export const SETTING_NAMES = Object.keys(settingsSchema.shape);
export const REQUIRED_SETTING_NAMES = Object.keys(REQUIRED);

/**
 * Checks the settings.
 *
 * @param variables as in the environment, all strings; an empty one counts as not made.
 * @throws Error `InvalidSettings` with a line for every setting that is wrong or missing.
 */
export function parseSettings(variables: Record<string, string | undefined>): Settings {
  const valid: Partial<Record<string, unknown>> = {};
  const wrong: WrongSetting[] = [];
  for (const [name, schema] of Object.entries(settingsSchema.shape)) {
    const value = variables[name]?.trim() ? variables[name] : undefined;
    const result = schema.safeParse(value);
    if (result.success) {
      valid[name] = result.data;
    } else if (value === undefined) {
      wrong.push({ name, got: 'nothing (it is required)', allowed: REQUIRED[name] ?? '' });
    } else {
      wrong.push({ name, got: shown(name, value), allowed: result.error.issues[0]?.message ?? '' });
    }
  }
  const faulty = new Set(wrong.map(({ name }) => name));
  wrong.push(...wrongTogether(valid as CheckedSettings, faulty));
  if (wrong.length > 0) throw invalidSettings(wrong);
  const checked = valid as CheckedSettings;
  const settings: Settings = {
    ...checked,
    DATA_CAPTURE_S3_PREFIX: checked.DATA_CAPTURE_S3_PREFIX ?? `${checked.SAGEMAKER_ENDPOINT_NAME}/`,
    MLFLOW_EXPERIMENT_NAME: checked.MLFLOW_EXPERIMENT_NAME ?? checked.SAGEMAKER_ENDPOINT_NAME,
  };
  const tooLong = wrongInLength(settings);
  if (tooLong.length > 0) throw invalidSettings(tooLong);
  return settings;
}

function invalidSettings(wrong: readonly WrongSetting[]): Error {
  const lines = wrong.map(({ name, got, allowed }) => `  ${name}: got ${got}; allowed: ${allowed}`);
  const error = new Error(`These settings are not valid (see .env.example):\n${lines.join('\n')}`);
  error.name = 'InvalidSettings';
  return error;
}

interface ReadSettings {
  settings: Settings;
  /** What a person should know although the stack can be made: a sentence each. */
  warnings: string[];
}

/** Reads `.env` (if there is one) and the environment, which wins. */
export function readSettings(environment: NodeJS.ProcessEnv = process.env, dotenvFile = '.env'): ReadSettings {
  const dotenv = existsSync(dotenvFile) ? parseDotenv(readFileSync(dotenvFile)) : {};
  const ofEnvironment = Object.fromEntries(
    SETTING_NAMES.map((name) => [name, environment[name]]).filter(([, value]) => value?.trim()),
  );
  const settings = parseSettings({ ...dotenv, ...ofEnvironment });
  return { settings, warnings: [...slips(SETTING_NAMES, dotenv, environment), ...doubtsAbout(settings)] };
}
