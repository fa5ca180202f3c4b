/** Finds variables that look like misspelled settings of this stack. */
import { nearest } from '../../src/core/values/nearest.ts';

/** The beginnings of our names. Any other variable in `.env` with one of these was meant for this stack. */
const OURS =
  /^(STACK_|MLFLOW_|SAGEMAKER_ENDPOINT|SAGEMAKER_MLFLOW|DATA_CAPTURE_|BEDROCK_|EVALUATION_|JUDGE_|LAMBDA_|REPLAY_|QUALITY_|ALARM_|ENDPOINT_|MISSING_|ARTHUR_)/;

/** Variables for the command line and for MLflow's own client, with the setting that the stack reads instead. */
const OF_THE_COMMAND_LINE: Readonly<Record<string, string>> = {
  MLFLOW_TRACKING_USERNAME: 'MLFLOW_SECRET_ARN',
  MLFLOW_TRACKING_PASSWORD: 'MLFLOW_SECRET_ARN',
  MLFLOW_TRACKING_TOKEN: 'MLFLOW_SECRET_ARN',
  JUDGE_API_KEY: 'JUDGE_SECRET_ARN',
};

/** The most edits (letters swapped, missing, added or replaced) in a misspelling. More would match unrelated names. */
const MAX_SLIPS = 2;

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
  const given = (variables: Readonly<Record<string, string | undefined>>): string[] =>
    Object.keys(variables).filter((name) => variables[name] && !names.includes(name));
  const found: string[] = [];
  for (const name of given(dotenv)) {
    const instead = OF_THE_COMMAND_LINE[name];
    if (instead !== undefined) {
      if (!dotenv[instead] && !environment[instead]) {
        found.push(`.env sets ${name}, which only the command line reads; the functions need ${instead}`);
      }
      continue;
    }
    const near = nearest(name, names, MAX_SLIPS);
    if (near !== undefined || OURS.test(name))
      found.push(`.env sets ${name}, which is not a setting of this stack${meant(near)}`);
  }
  for (const name of given(environment)) {
    const near =
      Object.hasOwn(dotenv, name) || name in OF_THE_COMMAND_LINE ? undefined : nearest(name, names, MAX_SLIPS);
    if (near !== undefined)
      found.push(`The environment sets ${name}, which is not a setting of this stack${meant(near)}`);
  }
  return found;
}

const meant = (name: string | undefined): string =>
  name === undefined ? '; see .env.example' : `; did you mean ${name}?`;
