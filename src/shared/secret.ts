/** Reads secrets from Secrets Manager; every failure comes out as a named error, which never holds the secret. */
import type { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { PermanentError, RetryableError, type RetryableErrorName, saidBy } from './errors.ts';

const PASSING = /Throttl|TooManyRequests|ExpiredToken/;

/**
 * @param client `undefined`: one with the credentials and region of the environment
 * @param names of the error when the secret is missing or access to it is denied, and when Secrets Manager fails for now
 * @param what that could not be read, for people
 * @returns the secret's text; empty when it is binary
 */
export async function loadSecret(
  client: SecretsManagerClient | undefined,
  secretArn: string,
  names: { unreadable: string; unavailable: RetryableErrorName },
  what: string,
): Promise<string> {
  // Loaded when first needed: most functions have no secret to read.
  const { GetSecretValueCommand, SecretsManagerClient: Client } = await import('@aws-sdk/client-secrets-manager');
  try {
    return (
      (await (client ?? new Client({})).send(new GetSecretValueCommand({ SecretId: secretArn }))).SecretString ?? ''
    );
  } catch (error) {
    const { name, $metadata } = error as Error & { $metadata?: { httpStatusCode?: number } };
    const facts = { got: saidBy(error), where: secretArn };
    const status = $metadata?.httpStatusCode;
    if (status !== undefined && status >= 400 && status < 500 && status !== 429 && !PASSING.test(name)) {
      throw new PermanentError(names.unreadable, `${what} could not be read`, facts, error);
    }
    throw new RetryableError(names.unavailable, `${what} could not be read`, facts, error);
  }
}
