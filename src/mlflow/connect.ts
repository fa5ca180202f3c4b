/** The MLflow client that the settings describe, for the functions and for the command line. */

import type { S3Client } from '@aws-sdk/client-s3';
import { isObject } from '../captures/json.ts';
import { loadSecret } from '../core/aws/secret.ts';
import { PermanentError } from '../core/errors/errors.ts';
import { jsonIn } from '../core/values/json-in.ts';
import type { MlflowSecret } from './auth.ts';
import { createMlflowClient, type MlflowClient, type MlflowClientOptions } from './client.ts';

interface MlflowSettings {
  MLFLOW_TRACKING_URI?: string | undefined;
  SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT?: string | undefined;
  MLFLOW_SECRET_ARN?: string | undefined;
  /** A person's own login, as MLflow's own client reads it. It takes precedence over the stack's secret. */
  MLFLOW_TRACKING_USERNAME?: string | undefined;
  MLFLOW_TRACKING_PASSWORD?: string | undefined;
  MLFLOW_TRACKING_TOKEN?: string | undefined;
}

/**
 * Returns a function that creates the client at its first call, and returns the same client from then on.
 *
 * @example
 *     const mlflow = connectMlflow(environment, storage.s3);
 *     const { rest } = await mlflow();   // in each invocation
 */
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
 *
 * @example
 *     const mlflow = mlflowOf(environment);
 *     const { id } = await mlflow.resolveExperiment('captures');
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
  const { MLFLOW_TRACKING_USERNAME: username, MLFLOW_TRACKING_PASSWORD: password } = settings;
  const login = loginOf(username, password, settings.MLFLOW_TRACKING_TOKEN);
  return createMlflowClient({
    trackingUri,
    customEndpoint: settings.SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT,
    secret: login ?? (secretArn === undefined ? undefined : () => loadMlflowSecret(secretArn)),
    s3,
    ...limits,
  });
}

/** As in MLflow's Python client, user and password take precedence over a token. */
function loginOf(username?: string, password?: string, token?: string): MlflowSecret | undefined {
  if (username && password) return { username, password };
  return token ? { token } : undefined;
}

/** @throws PermanentError `MlflowSecretInvalid`; the message contains the keys of the secret, never their values */
export function parseMlflowSecret(text: string, where: string): MlflowSecret {
  const json = jsonIn(text);
  const member = (name: string): string | undefined => {
    const keys = Object(json);
    const value = keys[name] ?? keys[`MLFLOW_TRACKING_${name.toUpperCase()}`];
    return typeof value === 'string' ? value : undefined;
  };
  const login = loginOf(member('username'), member('password'), member('token'));
  if (login !== undefined) return login;
  throw new PermanentError('MlflowSecretInvalid', 'The MLflow secret is invalid', {
    got: isObject(json) ? `a JSON object with the keys ${Object.keys(json).join(', ')}` : 'not a JSON object',
    expected:
      '{"username": …, "password": …} or {"token": …}; MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD and MLFLOW_TRACKING_TOKEN are accepted too',
    where,
  });
}

/**
 * @throws PermanentError `MlflowSecretUnreadable` if the secret is missing or access is denied; RetryableError
 *   `MlflowUnavailable` if Secrets Manager fails temporarily
 */
async function loadMlflowSecret(secretArn: string): Promise<MlflowSecret> {
  const names = { unreadable: 'MlflowSecretUnreadable', unavailable: 'MlflowUnavailable' } as const;
  const { text } = await loadSecret(undefined, secretArn, names, 'The MLflow secret');
  return parseMlflowSecret(text, secretArn);
}
