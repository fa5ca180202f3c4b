/** Reads the API key of a judge outside AWS. */
import type { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { loadSecret, secretOf } from '../../core/aws/secret.ts';
import { PermanentError } from '../../core/errors/errors.ts';

/**
 * Returns the key: the text, or its `api_key` if the text is a JSON object.
 * @throws PermanentError `JudgeSecretUnreadable`. Its message never contains the text.
 */
export function parseApiKey(text: string, where: string): string {
  const key = secretOf(text, 'api_key');
  if (key !== undefined) return key;
  throw new PermanentError('JudgeSecretUnreadable', 'The judge’s secret contains no API key', {
    expected: 'the key as plain text, one word of ASCII characters, or JSON {"api_key":"…"}, and not a binary secret',
    where,
  });
}

/** @throws PermanentError `JudgeSecretUnreadable`, RetryableError `JudgeUnavailable` while Secrets Manager fails */
export async function loadApiKey(client: SecretsManagerClient | undefined, secretArn: string): Promise<string> {
  const names = { unreadable: 'JudgeSecretUnreadable', unavailable: 'JudgeUnavailable' } as const;
  const { text } = await loadSecret(client, secretArn, names, 'The judge’s API key');
  return parseApiKey(text, secretArn);
}
