/** Reads the rules by which a stack masks, and the key of its pseudonyms from Secrets Manager. */

import { randomBytes } from 'node:crypto';
import type { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { loadSecret, secretError } from '../../core/aws/secret.ts';
import { pseudonymKeyName } from '../../core/contract/names.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { isRedacted, type Redaction, redactRules } from '../../core/settings/redact-setting.ts';

type RedactSettings = Pick<LambdaEnvironment, 'REDACT' | 'REDACT_ALLOW' | 'CONTENT'>;

/** Returns the rules without a key, as on a machine without a stack; `undefined` if nothing is masked. */
export const redactionOf = (settings: RedactSettings): Redaction | undefined =>
  isRedacted(settings)
    ? { ...redactRules(settings.REDACT ?? ''), allow: settings.REDACT_ALLOW ?? [], content: settings.CONTENT }
    : undefined;

type PseudonymKey = NonNullable<Redaction['previous']>;

const ERRORS = { unreadable: 'PseudonymKeyUnreadable', unavailable: 'PseudonymKeyUnavailable' } as const;
const WHAT = 'The key of the pseudonyms';

/**
 * Returns the key of a stack. Creates the key if the stack has no key yet.
 *
 * @param version the version that the run started with; the present version if it is absent or if Secrets Manager has deleted it
 * @throws PermanentError `PseudonymKeyUnreadable`, RetryableError `PseudonymKeyUnavailable`
 */
export async function pseudonymKey(
  prefix: string,
  version?: string,
  client?: SecretsManagerClient,
): Promise<PseudonymKey> {
  const ofRun = version && (await readKey(prefix, { VersionId: version }, client));
  return ofRun || (await readKey(prefix, {}, client)) || makeKey(prefix, client);
}

/** @returns `undefined` if there is no such secret, version or stage. @throws as `pseudonymKey` */
export async function readKey(
  prefix: string,
  which: { VersionId?: string; VersionStage?: 'AWSPREVIOUS' },
  client?: SecretsManagerClient,
): Promise<PseudonymKey | undefined> {
  const where = pseudonymKeyName(prefix);
  try {
    const { text, version } = await loadSecret(client, where, ERRORS, WHAT, which);
    if (text === '') throw new PermanentError(ERRORS.unreadable, `${WHAT} is no text`, { where, expected: 'a text' });
    return { key: text, keyVersion: version };
  } catch (error) {
    if (((error as Error).cause as Error | undefined)?.name === 'ResourceNotFoundException') return undefined;
    throw error;
  }
}

async function makeKey(prefix: string, client?: SecretsManagerClient): Promise<PseudonymKey> {
  // Loaded on first use: a stack that masks nothing makes no key.
  const { CreateSecretCommand, SecretsManagerClient: Client } = await import('@aws-sdk/client-secrets-manager');
  const Name = pseudonymKeyName(prefix);
  const key = randomBytes(32).toString('base64');
  const Description =
    'Key of the pseudonyms in traces of captures. Without it, no new pseudonym equals an earlier one.';
  try {
    const command = new CreateSecretCommand({ Name, Description, SecretString: key });
    return { key, keyVersion: (await (client ?? new Client({})).send(command)).VersionId ?? '' };
  } catch (error) {
    // Another run has created the key in the meantime.
    const made = (error as Error).name === 'ResourceExistsException' ? await readKey(prefix, {}, client) : undefined;
    if (made === undefined) throw secretError(error, Name, ERRORS, WHAT);
    return made;
  }
}

/**
 * Returns a function that adds the rules and the key of a run to the settings of a function.
 *
 * @param withPrevious whether to read the previous key too, to compare pseudonyms that were stored before a rotation
 *
 * @example
 *     const settingsOf = connectRedaction(environment);
 *     const { redaction } = await settingsOf(run.keyVersion);
 */
export function connectRedaction<E extends RedactSettings & { STACK_PREFIX: string; redaction?: Redaction }>(
  environment: E,
  withPrevious = false,
): (keyVersion?: string) => Promise<E> {
  const { STACK_PREFIX: prefix } = environment;
  const rules = redactionOf(environment);
  const known = new Map<string, E>();
  const before = async () => withPrevious && { previous: await readKey(prefix, { VersionStage: 'AWSPREVIOUS' }) };
  return async (keyVersion) => {
    if (rules === undefined) return environment;
    const ofRun = keyVersion && known.get(keyVersion);
    if (ofRun) return ofRun;
    const key = await pseudonymKey(prefix, keyVersion);
    // The same object for the same key, because `Masker` caches its preparations by this object.
    const made = known.get(key.keyVersion) ?? { ...environment, redaction: { ...rules, ...key, ...(await before()) } };
    known.set(key.keyVersion, made).set(keyVersion ?? key.keyVersion, made);
    return made;
  };
}
