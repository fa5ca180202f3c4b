/** The MLflow client that the settings describe, for the functions and for the command line. */
import type { S3Client } from '@aws-sdk/client-s3';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { PermanentError } from '../core/errors/errors.ts';
import { createMlflowClient, type MlflowClient, type MlflowClientOptions } from './client.ts';
import { loadMlflowSecret } from './secret.ts';

interface MlflowSettings {
  MLFLOW_TRACKING_URI?: string | undefined;
  SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT?: string | undefined;
  MLFLOW_SECRET_ARN?: string | undefined;
  /** A person's own login, as MLflow's own client reads it. It takes precedence over the stack's secret. */
  MLFLOW_TRACKING_USERNAME?: string | undefined;
  MLFLOW_TRACKING_PASSWORD?: string | undefined;
  MLFLOW_TRACKING_TOKEN?: string | undefined;
}

/** Returns a function that creates the client at its first call, and returns the same client from then on. */
export function connectMlflow(
  settings: MlflowSettings,
  s3: S3Client,
  limits?: MlflowClientOptions['limits'],
): () => Promise<MlflowClient> {
  let client: MlflowClient | undefined;
  return async () => {
    client ??= mlflowOf(settings, s3, { limits });
    return client;
  };
}

/**
 * Creates the client. The secret is read with the first request that needs it.
 *
 * @throws PermanentError `MlflowTrackingUriMissing`, `MlflowTrackingUriInvalid`
 */
export function mlflowOf(
  settings: MlflowSettings,
  s3?: S3Client,
  limits: Pick<MlflowClientOptions, 'retry' | 'timeoutMs' | 'limits'> = {},
): MlflowClient {
  const { MLFLOW_TRACKING_URI: trackingUri, MLFLOW_SECRET_ARN: secretArn } = settings;
  if (trackingUri === undefined) {
    throw new PermanentError('MlflowTrackingUriMissing', 'The address of MLflow is missing', {
      expected: 'MLFLOW_TRACKING_URI in the environment or .env, or --tracking-uri',
    });
  }
  const {
    MLFLOW_TRACKING_USERNAME: username,
    MLFLOW_TRACKING_PASSWORD: password,
    MLFLOW_TRACKING_TOKEN: token,
  } = settings;
  const login = username && password ? { username, password } : token ? { token } : undefined;
  return createMlflowClient({
    trackingUri,
    customEndpoint: settings.SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT,
    credentials: defaultProvider(),
    secret: login ?? (secretArn === undefined ? undefined : () => loadMlflowSecret(undefined, secretArn)),
    s3,
    ...limits,
  });
}
