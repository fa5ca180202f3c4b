/** Reads the API key of a judge outside AWS from Secrets Manager. */
import { GetSecretValueCommand, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { PermanentError } from '../common/errors.ts';

/**
 * @returns the key: the secret's text, or its `api_key` when it is JSON
 * @throws PermanentError `JudgeSecretUnreadable`; the message never holds the secret
 */
export async function loadApiKey(client: SecretsManagerClient, secretArn: string): Promise<string> {
  const expected = 'the key as plain text, or JSON {"api_key":"…"}';
  let text: string;
  try {
    text = (await client.send(new GetSecretValueCommand({ SecretId: secretArn }))).SecretString ?? '';
  } catch (error) {
    const got = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    throw new PermanentError(
      'JudgeSecretUnreadable',
      'The judge’s API key could not be read',
      { got, expected, where: secretArn },
      error,
    );
  }
  if (!text.trimStart().startsWith('{')) return text.trim();
  const key = (JSON.parse(text) as { api_key?: unknown }).api_key;
  if (typeof key === 'string' && key !== '') return key;
  throw new PermanentError('JudgeSecretUnreadable', 'The judge’s secret holds no API key', {
    expected,
    where: secretArn,
  });
}
