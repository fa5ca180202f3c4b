/**
 * Reads the stack's settings from `.env` and the environment (which takes precedence) and checks them at synth. One
 * error lists every setting that is wrong or missing. `.env.example` documents each of them.
 */

import { PermanentError } from '../../src/core/errors/errors.ts';
import { nearest } from '../../src/core/errors/nearest.ts';
import { dotenvSettings } from '../../src/core/settings/dotenv-file.ts';
import {
  type CheckedSettings,
  requiredSettings,
  type Settings,
  settingsSchema,
} from '../../src/core/settings/schema.ts';
import { describeWrong, readEach, type WrongSetting, withDefaultJudge } from '../../src/core/settings/variables.ts';
import { doubtsAbout, wrongByRules, wrongInLength } from './checks.ts';

/** Names of all settings, required settings first. */
export const SETTING_NAMES = Object.keys(settingsSchema.shape);
export const REQUIRED_SETTING_NAMES = Object.keys(requiredSettings);

/**
 * Checks the settings.
 *
 * @returns the settings, or every setting that is wrong or missing
 * @param variables as in the environment, all strings; an empty value counts as not set. `CDK_DEFAULT_REGION` is the
 *   region of the stack, which decides the default judge
 * @param deployed values that only the deployment knows, in place of their examples in `variables`
 */
export function examineSettings(
  variables: Readonly<Record<string, string | undefined>>,
  deployed: Partial<CheckedSettings> = {},
): { settings?: Settings; wrong: WrongSetting[] } {
  const read = readEach(settingsSchema, withDefaultJudge(variables, variables.CDK_DEFAULT_REGION));
  const { values } = read;
  const wrong = wrongByRules(values, read.wrong, variables);
  if (wrong.length > 0) return { wrong };
  const known = { ...values, ...deployed };
  const settings: Settings = {
    ...known,
    DATA_CAPTURE_S3_PREFIX: known.DATA_CAPTURE_S3_PREFIX ?? `${known.SAGEMAKER_ENDPOINT_NAME}/`,
    MLFLOW_EXPERIMENT_NAME: known.MLFLOW_EXPERIMENT_NAME ?? known.SAGEMAKER_ENDPOINT_NAME,
  };
  const tooLong = wrongInLength(settings);
  return tooLong.length > 0 ? { wrong: tooLong } : { settings, wrong };
}

/** Checks the settings. @throws PermanentError `InvalidSettings` with a line for every setting that is wrong or missing. */
export function parseSettings(...given: Parameters<typeof examineSettings>): Settings {
  const { settings, wrong } = examineSettings(...given);
  if (settings !== undefined) return settings;
  const lines = wrong.map((each) => `\n  ${describeWrong(each)}`);
  throw new PermanentError('InvalidSettings', `Some settings are invalid (see .env.example):${lines.join('')}`);
}

/**
 * Reads and checks the settings of `.env`, if it exists, and the environment, which takes precedence. `warnings` are notices for a person
 * that do not prevent the deployment, one sentence each.
 */
export function readSettings(environment: NodeJS.ProcessEnv = process.env, dotenvFile = '.env') {
  const dotenv = dotenvSettings(dotenvFile);
  const ofEnvironment = Object.fromEntries(
    SETTING_NAMES.map((name) => [name, environment[name]]).filter(([, value]) => value?.trim()),
  );
  const { CDK_DEFAULT_REGION } = environment;
  const settings = parseSettings({ ...dotenv, ...ofEnvironment, CDK_DEFAULT_REGION });
  return { settings, warnings: [...slips(SETTING_NAMES, dotenv, environment), ...doubtsAbout(settings)] };
}

// ------------------------------------------------------------------------------------------------ misspelled names

/** The beginnings of our names. Any other variable in `.env` with one of these was meant for this stack. */
const OURS =
  /^(STACK_|MLFLOW_|SAGEMAKER_ENDPOINT|SAGEMAKER_MLFLOW|DATA_CAPTURE_|BEDROCK_|EVALUATION_|JUDGE_|SCORER_|LAMBDA_|REPLAY_|QUALITY_|ALARM_|ENDPOINT_|MISSING_|NOT_TRAFFIC|ARTHUR_|OTLP_)/;

/** Variables for the command line and for MLflow's own client, with the setting that the stack reads instead. */
const OF_THE_COMMAND_LINE: Readonly<Record<string, string>> = {
  MLFLOW_TRACKING_USERNAME: 'MLFLOW_SECRET_ARN',
  MLFLOW_TRACKING_PASSWORD: 'MLFLOW_SECRET_ARN',
  MLFLOW_TRACKING_TOKEN: 'MLFLOW_SECRET_ARN',
  JUDGE_API_KEY: 'JUDGE_SECRET_ARN',
};

/**
 * Maximum number of edits (letters swapped, missing, added or replaced) in a misspelling; also at most a fifth of its
 * letters. A larger number would match unrelated names.
 */
const MAX_SLIPS = 2;
const mistaken = (name: string, names: readonly string[]): string | undefined =>
  nearest(name, names, Math.min(MAX_SLIPS, name.length / 5));

/**
 * Returns a sentence for each variable that looks like a setting but is not read.
 *
 * @param names the names of the settings
 * @param dotenv, environment the variables. The environment belongs to all programs, so only misspellings of our names
 *   count there
 */
export function slips(
  names: readonly string[],
  dotenv: Readonly<Record<string, string | undefined>>,
  environment: Readonly<Record<string, string | undefined>>,
): string[] {
  const slip = (name: string, place: '.env' | 'The environment'): string[] => {
    const isOurFile = place === '.env';
    const instead = OF_THE_COMMAND_LINE[name];
    if (instead !== undefined) {
      if (!isOurFile || dotenv[instead] || environment[instead]) return [];
      return [`.env sets ${name}, which only the command line reads; the functions need ${instead}`];
    }
    const near = mistaken(name, names);
    if (near === undefined && !(isOurFile && OURS.test(name))) return [];
    const hint = near === undefined ? 'see .env.example' : `did you mean ${near}?`;
    return [`${place} sets ${name}, which is not a setting of this stack; ${hint}`];
  };
  const others = (variables: typeof dotenv): string[] =>
    Object.keys(variables).filter((name) => variables[name] && !names.includes(name));
  return [
    ...others(dotenv).flatMap((name) => slip(name, '.env')),
    ...others(environment).flatMap((name) => (Object.hasOwn(dotenv, name) ? [] : slip(name, 'The environment'))),
  ];
}
