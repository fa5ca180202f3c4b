/** The judge and the MLflow connection of the command line, from the same settings as the stack's. */
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import * as z from 'zod';
import { PermanentError } from '../../common/errors.ts';
import { jsonText } from '../../common/json-text.ts';
import { DEFAULT_JUDGE_MODEL } from '../../contract.ts';
import { type Authorizer, anonymous, type MlflowSecret, secretAuthorizer } from '../../mlflow/auth.ts';
import { MlflowRest } from '../../mlflow/rest.ts';
import { DEFAULT_RETRY } from '../../mlflow/retry.ts';
import { loadMlflowSecret } from '../../mlflow/secret.ts';
import { sigV4Authorizer } from '../../mlflow/sigv4.ts';
import { parseTrackingUri } from '../../mlflow/tracking-uri.ts';
import { createTransport } from '../../mlflow/transport.ts';
import { loadApiKey } from '../api-key.ts';
import { createJudge } from '../create-judge.ts';
import { priceOptions } from '../estimate.ts';
import { priceOverridesSchema } from '../price-overrides.ts';
import { priceCall } from '../prices.ts';
import type { Judge } from '../types.ts';

const settingsSchema = z.object({
  BEDROCK_MODEL_ID: z.string().min(1).default(DEFAULT_JUDGE_MODEL),
  MLFLOW_EVALUATION_MODEL_PARAM: jsonText(z.record(z.string(), z.unknown())).default({}),
  JUDGE_CALLS: z.enum(['together', 'separate']).default('together'),
  JUDGE_GUIDELINES: jsonText(z.record(z.string(), z.string())).default({}),
  JUDGE_PRICES: jsonText(priceOverridesSchema).default({}),
  JUDGE_BASE_URL: z.string().optional(),
  JUDGE_SECRET_ARN: z.string().optional(),
  /** The key itself, for a judge outside AWS that is asked from a person's own machine. */
  JUDGE_API_KEY: z.string().optional(),
  BEDROCK_GUARDRAIL_ID: z.string().optional(),
  BEDROCK_GUARDRAIL_VERSION: z.string().default('DRAFT'),
  SAGEMAKER_ENDPOINT_NAME: z.string().optional(),
  MLFLOW_TRACKING_URI: z.string().optional(),
  MLFLOW_EXPERIMENT_NAME: z.string().optional(),
  MLFLOW_SECRET_ARN: z.string().optional(),
  MLFLOW_TRACKING_USERNAME: z.string().optional(),
  MLFLOW_TRACKING_PASSWORD: z.string().optional(),
  MLFLOW_TRACKING_TOKEN: z.string().optional(),
  SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: z.string().optional(),
});

export type CalibrationSettings = z.infer<typeof settingsSchema>;

/**
 * @param variables the environment over `.env`; further variables are of no concern here
 * @throws PermanentError `InvalidSettings` naming every setting that is wrong
 */
export function readCalibrationSettings(variables: NodeJS.ProcessEnv): CalibrationSettings {
  const given = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
  const result = settingsSchema.safeParse(given);
  if (result.success) return result.data;
  const wrong = result.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; ');
  throw new PermanentError('InvalidSettings', `The settings are not valid: ${wrong}`);
}

export async function connectCalibrationJudge(settings: CalibrationSettings): Promise<Judge> {
  const { BEDROCK_GUARDRAIL_ID: guardrail, JUDGE_SECRET_ARN: secret } = settings;
  const prices = priceOptions(settings);
  const apiKey =
    settings.JUDGE_API_KEY ??
    (secret === undefined ? undefined : await loadApiKey(new SecretsManagerClient({}), secret));
  return createJudge({
    model: settings.BEDROCK_MODEL_ID,
    parameters: settings.MLFLOW_EVALUATION_MODEL_PARAM,
    calls: settings.JUDGE_CALLS,
    priceCall: (model, usage) => priceCall(model, usage, prices),
    baseUrl: settings.JUDGE_BASE_URL,
    apiKey,
    ...(guardrail === undefined ? {} : { guardrail: { id: guardrail, version: settings.BEDROCK_GUARDRAIL_VERSION } }),
  });
}

export interface MlflowConnection {
  rest: MlflowRest;
  close(): void;
}

/** @throws PermanentError `MlflowTrackingUriMissing`, `MlflowTrackingUriInvalid` */
export function connectMlflowRest(settings: CalibrationSettings): MlflowConnection {
  const target = parseTrackingUri(requireTrackingUri(settings), settings.SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT);
  const authorizer = target.kind === 'url' ? plainAuthorizer(settings) : sigV4Authorizer(target, defaultProvider());
  const transport = createTransport();
  return {
    rest: new MlflowRest({ target, authorizer, transport, retry: DEFAULT_RETRY }),
    close: () => transport.close(),
  };
}

function plainAuthorizer(settings: CalibrationSettings): Authorizer {
  const secret = ownSecret(settings);
  if (secret !== undefined) return secretAuthorizer(secret);
  const { MLFLOW_SECRET_ARN: arn } = settings;
  return arn === undefined ? anonymous : secretAuthorizer(() => loadMlflowSecret(new SecretsManagerClient({}), arn));
}

/** @throws PermanentError `MlflowTrackingUriMissing` */
export function requireTrackingUri({ MLFLOW_TRACKING_URI: uri }: CalibrationSettings): string {
  if (uri !== undefined) return uri;
  throw new PermanentError('MlflowTrackingUriMissing', 'It is not known where MLflow is', {
    expected: 'MLFLOW_TRACKING_URI in the environment or .env, or --tracking-uri',
  });
}

/** As MLflow's own client has them: a person's, which win over the stack's secret. */
export function ownSecret(settings: CalibrationSettings): MlflowSecret | undefined {
  const {
    MLFLOW_TRACKING_USERNAME: username,
    MLFLOW_TRACKING_PASSWORD: password,
    MLFLOW_TRACKING_TOKEN: token,
  } = settings;
  if (username !== undefined && password !== undefined) return { username, password };
  return token === undefined ? undefined : { token };
}
