/** Reads secrets from Secrets Manager. Every failure is a named error that does not contain the secret. */

import type { GetSecretValueRequest, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import {
  PermanentError,
  type PermanentErrorName,
  RetryableError,
  type RetryableErrorName,
  saidBy,
} from '../errors/errors.ts';
import { jsonIn } from '../values/json-in.ts';

/** Characters that are valid in a header. A word with a line break would cause an error that contains the word. */
const WORD = /^[\x21-\x7e]+$/;

/**
 * Returns a secret of one word: the text, or its `member` if the text is a JSON object.
 *
 * @throws PermanentError `name` with the message `what`, without the text, if there is no such word
 */
export function secretOf(
  text: string,
  member: string,
  { name, what, where }: { name: PermanentErrorName; what: string; where: string },
): string {
  let word: unknown = text.trim();
  if (text.trimStart().startsWith('{')) word = Object(jsonIn(text))[member];
  if (typeof word === 'string' && WORD.test(word)) return word;
  const expected = `plain text, one word of ASCII characters, or JSON {"${member}":"…"}, and not a binary secret`;
  throw new PermanentError(name, what, { expected, where });
}

const TRANSIENT = /Throttl|TooManyRequests|ExpiredToken/;

interface SecretErrors {
  unreadable: PermanentErrorName;
  /** Absent: no retry would help, so that every failure is `unreadable`. */
  unavailable?: RetryableErrorName | undefined;
}

/**
 * Returns the text of a secret, empty if the secret is binary, and its version.
 *
 * @param client default: a client with the credentials and region of the environment
 * @param names the error names: `unreadable` if the secret is missing or access is denied, `unavailable` if Secrets
 *   Manager fails temporarily
 * @param what the secret's name in error messages
 * @param which version or stage. Default: the current version
 */
export async function loadSecret(
  client: SecretsManagerClient | undefined,
  secretArn: string,
  names: SecretErrors,
  what: string,
  which: Pick<GetSecretValueRequest, 'VersionId' | 'VersionStage'> = {},
): Promise<{ text: string; version: string }> {
  // Loaded on first use: most functions read no secret.
  const { GetSecretValueCommand, SecretsManagerClient: Client } = await import('@aws-sdk/client-secrets-manager');
  try {
    const command = new GetSecretValueCommand({ SecretId: secretArn, ...which });
    const { SecretString: text = '', VersionId: version = '' } = await (client ?? new Client({})).send(command);
    return { text, version };
  } catch (error) {
    throw secretError(error, secretArn, names, what);
  }
}

/** Returns the named error of a call that failed. The parameters are those of `loadSecret`. */
export function secretError(error: unknown, where: string, names: SecretErrors, what: string): Error {
  const { name, $metadata } = error as Error & { $metadata?: { httpStatusCode?: number } };
  const facts = { got: saidBy(error), where };
  const status = $metadata?.httpStatusCode;
  const isRefused = status !== undefined && status >= 400 && status < 500 && status !== 429 && !TRANSIENT.test(name);
  if (isRefused || names.unavailable === undefined)
    return new PermanentError(names.unreadable, `${what} could not be read`, facts, error);
  return new RetryableError(names.unavailable, `${what} could not be read`, facts, error);
}
