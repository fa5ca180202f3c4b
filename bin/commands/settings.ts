/** The judge and MLflow as the command line reaches them: a person's own settings, by the names and rules of the stack's. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import * as z from 'zod';
import { dotenvOfCommand } from '../../local/settings/dotenv-file.ts';
import { DEFAULT_JUDGE_MODEL } from '../../src/contract/names.ts';
import { judgeOf } from '../../src/judge/connect.ts';
import { loadApiKey } from '../../src/judge/transports/api-key.ts';
import type { Judge } from '../../src/judge/types.ts';
import { createMlflowClient, type MlflowClient, type MlflowClientOptions } from '../../src/mlflow/client.ts';
import { loadMlflowSecret } from '../../src/mlflow/secret.ts';
import { sharedSettings } from '../../src/settings/environment.ts';
import { readVariables } from '../../src/settings/variables.ts';
import { PermanentError } from '../../src/shared/errors.ts';

const settingsSchema = z.object({
  ...sharedSettings,
  BEDROCK_MODEL_ID: z.string().min(1).default(DEFAULT_JUDGE_MODEL),
  /** The key itself, for a judge outside AWS that is asked from a person's own machine. */
  JUDGE_API_KEY: z.string().optional(),
  SAGEMAKER_ENDPOINT_NAME: z.string().optional(),
  MLFLOW_TRACKING_URI: z.string().optional(),
  MLFLOW_EXPERIMENT_NAME: z.string().optional(),
  MLFLOW_TRACKING_USERNAME: z.string().optional(),
  MLFLOW_TRACKING_PASSWORD: z.string().optional(),
  MLFLOW_TRACKING_TOKEN: z.string().optional(),
});

export type CommandSettings = z.infer<typeof settingsSchema>;

/**
 * The environment over `.env`; further variables are of no concern here.
 *
 * @param flags what the command line says over both
 * @throws PermanentError `InvalidSettings` naming every setting that is wrong
 */
export function commandSettings(
  flags: Partial<Record<keyof CommandSettings, string>>,
  variables: NodeJS.ProcessEnv = { ...dotenvOfCommand(), ...process.env },
): CommandSettings {
  const given = Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined));
  return readVariables(
    settingsSchema,
    { ...variables, ...given },
    (wrong) => new PermanentError('InvalidSettings', `The settings are not valid: ${wrong}`),
  );
}

export async function connectCommandJudge(settings: CommandSettings): Promise<Judge> {
  const { JUDGE_API_KEY: key, JUDGE_SECRET_ARN: secret } = settings;
  return judgeOf(settings, key ?? (secret === undefined ? undefined : await loadApiKey(undefined, secret)));
}

/** @throws PermanentError `MlflowTrackingUriMissing`, `MlflowTrackingUriInvalid` */
export function connectCommandMlflow(settings: CommandSettings, s3?: MlflowClientOptions['s3']): MlflowClient {
  const {
    MLFLOW_SECRET_ARN: arn,
    MLFLOW_TRACKING_USERNAME: username,
    MLFLOW_TRACKING_PASSWORD: password,
    MLFLOW_TRACKING_TOKEN: token,
  } = settings;
  // As MLflow's own client has them: a person's, which win over the stack's secret.
  const own = username && password ? { username, password } : token ? { token } : undefined;
  return createMlflowClient({
    trackingUri: requireTrackingUri(settings),
    customEndpoint: settings.SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT,
    credentials: defaultProvider(),
    secret: own ?? (arn === undefined ? undefined : () => loadMlflowSecret(undefined, arn)),
    s3,
  });
}

/** @throws PermanentError `MlflowTrackingUriMissing` */
export function requireTrackingUri({ MLFLOW_TRACKING_URI: uri }: CommandSettings): string {
  if (uri !== undefined) return uri;
  throw new PermanentError('MlflowTrackingUriMissing', 'It is not known where MLflow is', {
    expected: 'MLFLOW_TRACKING_URI in the environment or .env, or --tracking-uri',
  });
}
