/** Reads the user and password, or the token, of a plain tracking server from Secrets Manager. */
import type { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import * as z from 'zod';
import { isObject } from '../captures/json.ts';
import { loadSecret } from '../core/aws/secret.ts';
import { PermanentError } from '../core/errors/errors.ts';
import type { MlflowSecret } from './auth.ts';

/** Keys in lower case, or named like MLflow's environment variables. */
const secretSchema = z
  .object({
    username: z.string().min(1).optional(),
    password: z.string().min(1).optional(),
    token: z.string().min(1).optional(),
    MLFLOW_TRACKING_USERNAME: z.string().min(1).optional(),
    MLFLOW_TRACKING_PASSWORD: z.string().min(1).optional(),
    MLFLOW_TRACKING_TOKEN: z.string().min(1).optional(),
  })
  .transform((keys): MlflowSecret | undefined => {
    const username = keys.username ?? keys.MLFLOW_TRACKING_USERNAME;
    const password = keys.password ?? keys.MLFLOW_TRACKING_PASSWORD;
    // As in MLflow's Python client, user and password take precedence over a token.
    if (username !== undefined && password !== undefined) return { username, password };
    const token = keys.token ?? keys.MLFLOW_TRACKING_TOKEN;
    return token === undefined ? undefined : { token };
  });

/** @throws PermanentError `MlflowSecretInvalid`; the message contains the keys of the secret, never their values */
export function parseMlflowSecret(text: string, where: string): MlflowSecret {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  const parsed = secretSchema.safeParse(json);
  if (parsed.success && parsed.data) return parsed.data;
  throw new PermanentError('MlflowSecretInvalid', 'The MLflow secret is invalid', {
    got: isObject(json) ? `a JSON object with the keys ${Object.keys(json).join(', ')}` : 'not a JSON object',
    expected:
      '{"username": …, "password": …} or {"token": …}; MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD and MLFLOW_TRACKING_TOKEN are accepted too',
    where,
  });
}

/**
 * @param client default: a client with the credentials and region of the environment
 * @throws PermanentError `MlflowSecretUnreadable` if the secret is missing or access is denied; RetryableError
 *   `MlflowUnavailable` if Secrets Manager fails temporarily
 */
export async function loadMlflowSecret(
  client: SecretsManagerClient | undefined,
  secretArn: string,
): Promise<MlflowSecret> {
  const names = { unreadable: 'MlflowSecretUnreadable', unavailable: 'MlflowUnavailable' } as const;
  return parseMlflowSecret(await loadSecret(client, secretArn, names, 'The MLflow secret'), secretArn);
}
