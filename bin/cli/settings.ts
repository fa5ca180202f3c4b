/**
 * The settings of the command line: the settings of the stack's functions, and the user's login to MLflow and to the
 * judge.
 */
import * as z from 'zod';
import { redactionOf } from '../../src/captures/redact/redaction.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import type { Redaction } from '../../src/core/settings/redact-setting.ts';
import { functionSettings } from '../../src/core/settings/schema.ts';
import { readVariables, withDefaultJudge } from '../../src/core/settings/variables.ts';
import type { ExcludedWindow } from '../../src/ledger/excluded.ts';

const text = z.string().optional();

const settingsSchema = z.object({
  ...functionSettings,
  // There may be no stack.
  STACK_PREFIX: text,
  MLFLOW_TRACKING_URI: text,
  SAGEMAKER_ENDPOINT_NAME: text,
  DATA_CAPTURE_S3_BUCKET: text,
  JUDGE_API_KEY: text,
  MLFLOW_TRACKING_USERNAME: text,
  MLFLOW_TRACKING_PASSWORD: text,
  MLFLOW_TRACKING_TOKEN: text,
});
/** A person's own logins, which no stack has. */
export const LOGINS = Object.keys(settingsSchema.shape).filter((name) => !(name in functionSettings));

/** Includes the rules of masking, but no key, because only the functions may read it. */
export interface CommandSettings extends z.infer<typeof settingsSchema> {
  redaction?: Redaction | undefined;
  /** Reads the windows that are no traffic. Absent without a stack. */
  excluded?: () => Promise<ExcludedWindow[]>;
}

export type SettingFlags = Partial<Record<keyof CommandSettings, string | undefined>>;

/** Whether the user names a stack with the option or in the environment, which overrides the settings of the folder. */
export const namesStack = ({ stack }: { stack?: string | undefined }): boolean =>
  stack !== undefined || Boolean(process.env.STACK_PREFIX);

/**
 * Reads the settings from the environment, which takes precedence over `.env`.
 *
 * @param flags values from the command line, which take precedence over both
 * @throws PermanentError `InvalidSettings` with every setting that is wrong
 */
export function commandSettings(
  flags: SettingFlags = {},
  variables: NodeJS.ProcessEnv = { ...dotenvOfCommand(), ...process.env },
): CommandSettings {
  const given = Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined));
  const settings = readVariables(
    settingsSchema,
    withDefaultJudge({ ...variables, ...given }, variables.AWS_REGION ?? variables.AWS_DEFAULT_REGION),
    (wrong) => new PermanentError('InvalidSettings', `Some settings are invalid: ${wrong}`),
  );
  return { ...settings, redaction: redactionOf(settings) };
}

export const HOW_TO_READ =
  '“inference-monitor dataset --out FILE --raw” reads their captures from S3, with your own rights.';

/** Refuses a command that needs the words of traces. @throws PermanentError `NoContent` */
export function assertHasTexts({ CONTENT }: CommandSettings, command: string): void {
  if (CONTENT !== 'none') return;
  throw new PermanentError('NoContent', `Traces have no texts, since CONTENT=none. ${HOW_TO_READ}`, { got: command });
}
