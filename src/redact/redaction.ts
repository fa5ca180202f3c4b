/** What a stack masks, with the key of its pseudonyms from Secrets Manager. */

import { randomBytes } from 'node:crypto';
import type { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { secretError } from '../core/aws/secret.ts';
import { pseudonymKeyName } from '../core/contract/names.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { type Redaction, redactRules } from '../core/settings/redact-setting.ts';

type RedactSettings = Pick<LambdaEnvironment, 'REDACT' | 'REDACT_ALLOW' | 'CONTENT'>;

/** Whether captures leave their bucket only masked, or not at all. */
export const isRedacted = ({ REDACT, CONTENT }: Omit<RedactSettings, 'REDACT_ALLOW'>): boolean =>
  REDACT !== undefined || CONTENT === 'none';

/** Returns what is masked without a key, as on a machine without a stack; `undefined` if nothing is. */
export const redactionOf = (settings: RedactSettings): Redaction | undefined =>
  isRedacted(settings)
    ? { ...redactRules(settings.REDACT ?? ''), allow: settings.REDACT_ALLOW ?? [], content: settings.CONTENT }
    : undefined;

interface PseudonymKey {
  version: string;
  key: string;
}

/** Loaded on first use: a stack that masks nothing reads no key. */
const sdk = () => import('@aws-sdk/client-secrets-manager');

const ERRORS = { unreadable: 'PseudonymKeyUnreadable', unavailable: 'PseudonymKeyUnavailable' } as const;

/** Reads the key of a stack, and makes it if there is none. */
export class PseudonymKeys {
  readonly #secret: string;
  readonly #known = new Map<string, PseudonymKey>();
  #client: SecretsManagerClient | undefined;

  /** @param client default: one with the credentials and the region of the environment */
  constructor(prefix: string, client?: SecretsManagerClient) {
    this.#secret = pseudonymKeyName(prefix);
    this.#client = client;
  }

  /**
   * @param version of the run; `undefined`: the present one. One that Secrets Manager no longer has is replaced by the present one
   * @throws PermanentError `PseudonymKeyUnreadable`, RetryableError `PseudonymKeyUnavailable`
   */
  async get(version?: string): Promise<PseudonymKey> {
    const known = version && this.#known.get(version);
    if (known) return known;
    const read = (version && (await this.#read(version))) || (await this.#read()) || (await this.#make());
    this.#known.set(version ?? read.version, read);
    return read;
  }

  /** Returns the key before the present one, if it was rotated. */
  async previous(): Promise<Redaction['previous']> {
    const read = await this.#read(undefined, 'AWSPREVIOUS');
    return read && { key: read.key, keyVersion: read.version };
  }

  /** @returns `undefined` if there is no such secret or version */
  async #read(version?: string, stage?: string): Promise<PseudonymKey | undefined> {
    const { GetSecretValueCommand, SecretsManagerClient: Client } = await sdk();
    this.#client ??= new Client({});
    try {
      const which = { SecretId: this.#secret, VersionId: version, VersionStage: stage };
      const secret = await this.#client.send(new GetSecretValueCommand(which));
      return { version: secret.VersionId ?? '', key: secret.SecretString ?? '' };
    } catch (error) {
      if ((error as Error).name === 'ResourceNotFoundException') return undefined;
      throw this.#named(error);
    }
  }

  async #make(): Promise<PseudonymKey> {
    const { CreateSecretCommand, SecretsManagerClient: Client } = await sdk();
    this.#client ??= new Client({});
    const key = randomBytes(32).toString('base64');
    const Description =
      'Key of the pseudonyms in traces of captures. Without it, no new pseudonym equals an earlier one.';
    try {
      const secret = new CreateSecretCommand({ Name: this.#secret, Description, SecretString: key });
      return { version: (await this.#client.send(secret)).VersionId ?? '', key };
    } catch (error) {
      // Another run has made it.
      const made = (error as Error).name === 'ResourceExistsException' ? await this.#read() : undefined;
      if (made === undefined) throw this.#named(error);
      return made;
    }
  }

  #named(error: unknown): Error {
    return secretError(error, this.#secret, ERRORS, 'The key of the pseudonyms');
  }
}

/**
 * Returns a function that adds to the settings of a function what a run masks.
 *
 * @param withPrevious also the key before, for what is compared with what was kept under it
 */
export function connectRedaction<E extends RedactSettings & { STACK_PREFIX: string; redaction?: Redaction }>(
  environment: E,
  withPrevious = false,
): (keyVersion?: string) => Promise<E> {
  const keys = new PseudonymKeys(environment.STACK_PREFIX);
  const rules = redactionOf(environment);
  const known = new Map<string, E>();
  return async (keyVersion) => {
    if (rules === undefined) return environment;
    const { key, version } = await keys.get(keyVersion);
    // The same object for the same key: what is derived from it is kept with it.
    const made = known.get(version) ?? {
      ...environment,
      redaction: { ...rules, key, keyVersion: version, ...(withPrevious && { previous: await keys.previous() }) },
    };
    known.set(version, made);
    return made;
  };
}
