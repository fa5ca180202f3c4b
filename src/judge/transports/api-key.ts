/** Reads the API key of a judge outside AWS. */
import type { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { loadSecret, secretOf } from '../../core/aws/secret.ts';

/**
 * Returns the key: the text, or its `api_key` if the text is a JSON object.
 * @throws PermanentError `JudgeSecretUnreadable`. Its message never contains the text.
 */
export const parseApiKey = (text: string, where: string): string =>
  secretOf(text, 'api_key', { name: 'JudgeSecretUnreadable', what: 'The judge’s secret contains no API key', where });

/** @throws PermanentError `JudgeSecretUnreadable`, RetryableError `JudgeUnavailable` while Secrets Manager fails */
export async function loadApiKey(client: SecretsManagerClient | undefined, secretArn: string): Promise<string> {
  const names = { unreadable: 'JudgeSecretUnreadable', unavailable: 'JudgeUnavailable' } as const;
  const { text } = await loadSecret(client, secretArn, names, 'The judge’s API key');
  return parseApiKey(text, secretArn);
}
