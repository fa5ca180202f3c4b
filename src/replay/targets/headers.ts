/** Reads the headers of a URL target from the command line, a file or a secret. */

import { PermanentError, saidBy } from '../../core/errors/errors.ts';
import { jsonIn } from '../../core/values/json-in.ts';

/** @throws PermanentError `HeadersUnavailable`, `InvalidHeader` */
export async function secretHeaders(secretId: string): Promise<Record<string, string>> {
  const { SecretsManagerClient, GetSecretValueCommand } = await import('@aws-sdk/client-secrets-manager');
  const client = new SecretsManagerClient({});
  let text: string | undefined;
  try {
    text = (await client.send(new GetSecretValueCommand({ SecretId: secretId }))).SecretString;
  } catch (error) {
    const facts = { got: saidBy(error), where: secretId };
    throw new PermanentError('HeadersUnavailable', 'The secret with the headers cannot be read', facts, error);
  } finally {
    client.destroy();
  }
  const headers = parseHeaders(text ?? '', secretId);
  if (Object.keys(headers).length > 0) return headers;
  return refuse('The secret contains no header', secretId);
}

/** Without the text: it may be a secret. */
function refuse(message: string, where: string): never {
  const expected = 'a JSON object of names and values, or lines of "Name: value"';
  throw new PermanentError('InvalidHeader', message, { expected, where });
}

/**
 * Parses a JSON object of names and values, or lines of `Name: value`. Empty lines and lines that start with `#` are ignored.
 *
 * @throws PermanentError `InvalidHeader`
 */
export function parseHeaders(text: string, where: string): Record<string, string> {
  if (text.trimStart().startsWith('{')) {
    const value = jsonIn(text);
    if (value === undefined) refuse('The headers are not valid JSON', where);
    const entries = Object.entries(value as Record<string, unknown>);
    if (entries.some(([, header]) => typeof header !== 'string'))
      refuse('The value of a header is not a string', where);
    return Object.fromEntries(entries) as Record<string, string>;
  }
  const headers: Record<string, string> = {};
  for (const [i, raw] of text.split('\n').entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const colon = line.indexOf(':');
    if (colon <= 0) refuse('A line is not a header', `${where}, line ${i + 1}`);
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return headers;
}
