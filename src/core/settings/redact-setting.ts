/** The settings by which personal data and secrets of captures are masked, or texts not written at all. */

import * as z from 'zod';
import { nameList, setting, textWithout } from './kinds.ts';

/** The kinds that are found by their form, which docs/redaction.md describes. */
export const REDACT_KINDS = [
  'email',
  'phone',
  'card',
  'iban',
  'ssn',
  'ip',
  'mac',
  'url_credentials',
  'api_key',
  'jwt',
  'crypto_wallet',
  'date_of_birth',
] as const;
export type RedactKind = (typeof REDACT_KINDS)[number];

export interface RedactRules {
  kinds: RedactKind[];
  /** Names of fields whose values are masked; `#3` is the third column. */
  fields: string[];
  /** Patterns in the syntax of RE2, by name. */
  patterns: { name: string; pattern: string }[];
}

const FIELD = /^(?:[^,<>]{1,100}|#[1-9]\d{0,4})$/;

/** A comma within a pattern is a part of it, unless an entry follows. */
const SEPARATOR = new RegExp(`,(?=\\s*(?:(?:${REDACT_KINDS.join('|')})\\s*(?:,|$)|field:|pattern:))`);

/**
 * Reads the setting.
 *
 * @param wrong is told of each entry that is wrong
 */
export function redactRules(text: string, wrong: (message: string) => void = () => {}): RedactRules {
  const rules: RedactRules = { kinds: [], fields: [], patterns: [] };
  const parts = text.split(SEPARATOR).flatMap((part) => (/^\s*pattern:/.test(part) ? [part] : part.split(',')));
  for (const entry of parts.map((part) => part.trim())) {
    const [, form, rest = ''] = /^(field|pattern):(.*)$/s.exec(entry) ?? [];
    const [, name, pattern] = /^([\w.-]{1,60})=(.+)$/s.exec(form === 'pattern' ? rest : '') ?? [];
    const kind = REDACT_KINDS.find((known) => known === entry);
    if (kind !== undefined) rules.kinds.push(kind);
    else if (form === 'field' && FIELD.test(rest)) rules.fields.push(rest);
    else if (name !== undefined && pattern !== undefined) rules.patterns.push({ name, pattern });
    else if (entry !== '') wrong(`not ${JSON.stringify(entry.slice(0, 60))}`);
  }
  return rules;
}

/** What is masked, and how. */
export interface Redaction extends RedactRules {
  /** Addresses and numbers of one's own; `@example.com` is a domain. */
  allow: readonly string[];
  /** `none`: traces and verdicts have no texts. */
  content: 'all' | 'none' | undefined;
  /** The key of the pseudonyms, and its version. Without one equal values cannot be recognised: `<email>`. */
  key?: string;
  keyVersion?: string;
  /** The key before, where what was kept under it is compared. */
  previous?: { key: string; keyVersion: string } | undefined;
}

export const redactSettings = {
  REDACT: setting(
    `a list, separated by commas, of ${REDACT_KINDS.join(', ')}, field:<name>, field:#<column> and pattern:<name>=<regular expression>`,
    textWithout((text) => {
      const wrong: string[] = [];
      redactRules(text, (message) => wrong.push(message));
      return wrong[0];
    }).optional(),
  ),
  /** Addresses and numbers of one's own, which stay. `@example.com` is a domain. */
  REDACT_ALLOW: setting(
    'values separated by commas, such as help@example.com,@example.org',
    nameList(/^.{3,200}$/).optional(),
  ),
  /** `none`: traces and verdicts without texts. */
  CONTENT: setting('all or none', z.enum(['all', 'none']).optional()),
};
