/** The setting `REDACT`: which personal data and secrets of captures are masked. */

import * as z from 'zod';
import { setting } from './kinds.ts';

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

const NAME = /^[\w.-]{1,60}$/;
const FIELD = /^(?:[^,<>]{1,100}|#[1-9]\d{0,4})$/;

/** A comma within a pattern is a part of it, unless an entry follows. */
const SEPARATOR = new RegExp(`,(?=\\s*(?:(?:${REDACT_KINDS.join('|')})\\s*(?:,|$)|field:|pattern:))`);

/** @param wrong is told what is wrong with an entry */
function rulesOf(text: string, wrong: (message: string) => void): RedactRules {
  const rules: RedactRules = { kinds: [], fields: [], patterns: [] };
  for (const entry of text.split(SEPARATOR).map((part) => part.trim())) {
    const [, form, rest = ''] = /^(field|pattern):(.*)$/s.exec(entry) ?? [];
    const at = rest.indexOf('=');
    const kind = REDACT_KINDS.find((known) => known === entry);
    if (kind !== undefined) rules.kinds.push(kind);
    else if (form === 'field' && FIELD.test(rest)) rules.fields.push(rest);
    else if (form === 'pattern' && NAME.test(rest.slice(0, Math.max(0, at))) && rest.length > at + 1) {
      rules.patterns.push({ name: rest.slice(0, at), pattern: rest.slice(at + 1) });
    } else wrong(`${JSON.stringify(entry.slice(0, 60))} is none of them`);
  }
  return rules;
}

export const NO_RULES: RedactRules = { kinds: [], fields: [], patterns: [] };

export const redactSetting = setting(
  `a list, separated by commas, of ${REDACT_KINDS.join(', ')}, field:<name>, field:#<column> and pattern:<name>=<regular expression>`,
  z
    .string()
    .transform((text, context) => rulesOf(text, (message) => context.addIssue({ code: 'custom', message })))
    .default(NO_RULES),
);
