/** The MLflow client as a Lambda's environment describes it. */
import type { S3Client } from '@aws-sdk/client-s3';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import type { LambdaEnvironment } from '../settings/environment.ts';
import { createMlflowClient, type MlflowClient } from './client.ts';
import { loadMlflowSecret } from './secret.ts';

type Settings = Pick<
  LambdaEnvironment,
  'MLFLOW_TRACKING_URI' | 'MLFLOW_SECRET_ARN' | 'SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT'
>;

/**
 * Gives a function that makes the client when it is first asked for, and the same one from then on. The secret is read
 * with the first request that needs it.
 */
export function connectMlflow(settings: Settings, s3: S3Client): () => Promise<MlflowClient> {
  let client: MlflowClient | undefined;
  return async () => {
    client ??= connect(settings, s3);
    return client;
  };
}

function connect(settings: Settings, s3: S3Client): MlflowClient {
  const secretArn = settings.MLFLOW_SECRET_ARN;
  const trackingUri = settings.MLFLOW_TRACKING_URI;
  const customEndpoint = settings.SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT;
  return createMlflowClient({
    trackingUri,
    s3,
    credentials: defaultProvider(),
    ...(customEndpoint ? { customEndpoint } : {}),
    ...(secretArn ? { secret: () => loadMlflowSecret(undefined, secretArn) } : {}),
  });
}
