/** The settings of the command line: the stack's own, and a person's login to MLflow and to the judge. */
import * as z from 'zod';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import { functionSettings, sharedSettings } from '../../src/core/settings/schema.ts';
import { readVariables, withDefaultJudge } from '../../src/core/settings/variables.ts';

const text = z.string().optional();

const settingsSchema = z.object({
  ...sharedSettings,
  JUDGE_API_KEY: text,
  SAGEMAKER_ENDPOINT_NAME: text,
  MLFLOW_TRACKING_URI: text,
  MLFLOW_EXPERIMENT_NAME: text,
  SHADOW_VARIANTS: functionSettings.SHADOW_VARIANTS,
  MLFLOW_TRACKING_USERNAME: text,
  MLFLOW_TRACKING_PASSWORD: text,
  MLFLOW_TRACKING_TOKEN: text,
});

export type CommandSettings = z.infer<typeof settingsSchema>;

/** Also those that decide how captures are read, and which of them are judged. */
const captureSettingsSchema = settingsSchema.extend({
  CSV_HEADER: functionSettings.CSV_HEADER,
  FEATURE_NAMES: functionSettings.FEATURE_NAMES,
  MAX_LINE_BYTES: functionSettings.MAX_LINE_BYTES,
  EVALUATION_SAMPLE_RATE: functionSettings.EVALUATION_SAMPLE_RATE,
  EVALUATION_BUDGET_USD: functionSettings.EVALUATION_BUDGET_USD,
  EVALUATION_ALWAYS: functionSettings.EVALUATION_ALWAYS,
});

/** Also those about true answers. */
const truthSettingsSchema = settingsSchema.extend({
  GROUND_TRUTH: functionSettings.GROUND_TRUTH,
  GROUND_TRUTH_S3_PREFIX: functionSettings.GROUND_TRUTH_S3_PREFIX,
});

export type CaptureSettings = z.infer<typeof captureSettingsSchema>;

type Flags<S> = Partial<Record<keyof S, string>>;

/**
 * Reads the settings from the environment, which takes precedence over `.env`.
 *
 * @param flags values from the command line, which take precedence over both
 * @throws PermanentError `InvalidSettings` with every setting that is wrong
 */
export const commandSettings = (flags: Flags<CommandSettings>, variables = ownVariables()): CommandSettings =>
  settingsOf(settingsSchema, flags, variables);

/** Reads the settings in the same way, for commands that read captures. */
export const captureSettings = (flags: Flags<CaptureSettings>, variables = ownVariables()): CaptureSettings =>
  settingsOf(captureSettingsSchema, flags, variables);

/** Reads the settings in the same way, for commands about true answers. */
export const truthSettings = (variables = ownVariables()): z.infer<typeof truthSettingsSchema> =>
  settingsOf(truthSettingsSchema, {}, variables);

const ownVariables = (): NodeJS.ProcessEnv => ({ ...dotenvOfCommand(), ...process.env });

function settingsOf<S extends z.ZodRawShape>(
  schema: z.ZodObject<S>,
  flags: Readonly<Record<string, string | undefined>>,
  variables: NodeJS.ProcessEnv,
): z.output<z.ZodObject<S>> {
  const given = Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined));
  return readVariables(
    schema,
    withDefaultJudge({ ...variables, ...given }, variables.AWS_REGION ?? variables.AWS_DEFAULT_REGION),
    (wrong) => new PermanentError('InvalidSettings', `Some settings are invalid: ${wrong}`),
  );
}
