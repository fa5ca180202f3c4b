/** The settings of the command line: the stack's own, and a person's login to MLflow and to the judge. */
import * as z from 'zod';
import { withDefaultJudge } from '../../src/settings/default-judge.ts';
import { dotenvOfCommand } from '../../src/settings/dotenv-file.ts';
import { sharedSettings } from '../../src/settings/schema.ts';
import { readVariables } from '../../src/settings/variables.ts';
import { PermanentError } from '../../src/shared/errors.ts';

const text = z.string().optional();

const settingsSchema = z.object({
  ...sharedSettings,
  JUDGE_API_KEY: text,
  SAGEMAKER_ENDPOINT_NAME: text,
  MLFLOW_TRACKING_URI: text,
  MLFLOW_EXPERIMENT_NAME: text,
  MLFLOW_TRACKING_USERNAME: text,
  MLFLOW_TRACKING_PASSWORD: text,
  MLFLOW_TRACKING_TOKEN: text,
});

export type CommandSettings = z.infer<typeof settingsSchema>;

/**
 * Reads the settings from the environment, which takes precedence over `.env`.
 *
 * @param flags values from the command line, which take precedence over both
 * @throws PermanentError `InvalidSettings` with every setting that is wrong
 */
export function commandSettings(
  flags: Partial<Record<keyof CommandSettings, string>>,
  variables: NodeJS.ProcessEnv = { ...dotenvOfCommand(), ...process.env },
): CommandSettings {
  const given = Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined));
  return readVariables(
    settingsSchema,
    withDefaultJudge({ ...variables, ...given }, variables.AWS_REGION ?? variables.AWS_DEFAULT_REGION),
    (wrong) => new PermanentError('InvalidSettings', `Some settings are invalid: ${wrong}`),
  );
}
