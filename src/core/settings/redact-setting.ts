/** The settings by which personal data and secrets of captures are masked, or texts not written at all. */

import * as z from 'zod';
import { described, nameList, setting, textWithout } from './kinds.ts';

/** The kinds that are found by their form, which docs/redaction.md describes. */
export const REDACT_KINDS = [
  'email',
  'phone',
  'card',
  'iban',
  'ssn',
  'national_id',
  'ip',
  'mac',
  'url_credentials',
  'api_key',
  'jwt',
  'crypto_wallet',
  'date_of_birth',
] as const;
export type RedactKind = (typeof REDACT_KINDS)[number];

interface RedactRules {
  kinds: RedactKind[];
  /** Names of fields whose values are masked; `#3` is the third column. */
  fields: string[];
  /** Patterns in the syntax of RE2, by name. */
  patterns: { name: string; pattern: string }[];
}

/** A comma within a pattern belongs to the pattern, unless an entry follows. */
const SEPARATOR = new RegExp(`,(?=\\s*(?:(?:${REDACT_KINDS.join('|')})\\s*(?:,|$)|field:|pattern:))`);

/** Reads the setting. `wrong`: describes the faults of its entries. */
export function redactRules(text: string): RedactRules & { wrong: string[] } {
  const rules: ReturnType<typeof redactRules> = { kinds: [], fields: [], patterns: [], wrong: [] };
  const parts = text.split(SEPARATOR).flatMap((part) => (/^\s*pattern:/.test(part) ? [part] : part.split(',')));
  for (const entry of parts.map((part) => part.trim())) {
    const [, field] = /^field:([^,<>]{1,100})$/.exec(entry) ?? [];
    const [, name, pattern] = /^pattern:([\w.-]{1,60})=(.+)$/s.exec(entry) ?? [];
    const kind = REDACT_KINDS.find((known) => known === entry);
    if (kind !== undefined) rules.kinds.push(kind);
    else if (field !== undefined) rules.fields.push(field);
    else if (name !== undefined && pattern !== undefined) rules.patterns.push({ name, pattern });
    else if (entry !== '') rules.wrong.push(`not ${JSON.stringify(entry.slice(0, 60))}`);
  }
  return rules;
}

/** The rules of masking. */
export interface Redaction extends RedactRules {
  /** The user's own addresses and numbers, which are not masked; `@example.com` is a domain. */
  allow: readonly string[];
  /** `none`: traces and verdicts have no texts. */
  content: 'all' | 'none' | undefined;
  /** The key of the pseudonyms, and its version. Without one equal values cannot be recognised: `<email>`. */
  key?: string;
  keyVersion?: string;
  /** The previous key, for comparisons with data that was masked with it. */
  previous?: { key: string; keyVersion: string } | undefined;
}

/** Whether captures leave their bucket only masked, or not at all. */
export const isRedacted = ({
  REDACT,
  CONTENT,
}: {
  REDACT?: string | undefined;
  CONTENT?: Redaction['content'];
}): boolean => REDACT !== undefined || CONTENT === 'none';

export const redactSettings = described({
  REDACT: setting(
    `a list, separated by commas, of ${REDACT_KINDS.join(', ')}, field:<name>, field:#<column> and pattern:<name>=<regular expression>`,
    textWithout((text) => redactRules(text).wrong[0]).optional(),
  ),
  /** The user's own addresses and numbers, which are not masked. `@example.com` is a domain. */
  REDACT_ALLOW: nameList(/^.{3,200}$/).optional(),
  /** `none`: traces and verdicts have no texts. */
  CONTENT: z.enum(['all', 'none']).optional(),
});

/** Settings that hide content, and the version of the key of the pseudonyms. */
interface Masking extends z.infer<z.ZodObject<typeof redactSettings>> {
  keyVersion?: string | undefined;
}

/** Returns the settings that hide content as a text; `undefined` if nothing is hidden. */
export const maskingOf = (settings: Masking & { redaction?: Redaction | undefined }): string | undefined => {
  const { REDACT, REDACT_ALLOW, CONTENT, redaction } = settings;
  const masking: Masking = { REDACT, REDACT_ALLOW, CONTENT, keyVersion: redaction?.keyVersion };
  return isRedacted(settings) ? JSON.stringify(masking) : undefined;
};

/** Reads the text of `maskingOf`. */
export const readMasking = (text = '{}'): Masking => ({ ...NOTHING_HIDDEN, ...JSON.parse(text) });

const NOTHING_HIDDEN: Masking = { REDACT: undefined, REDACT_ALLOW: undefined, CONTENT: undefined };

/** Whether the present settings hide something that earlier ones did not. */
export function hidesMore(now: Masking, before: Masking): boolean {
  const rulesOf = ({ REDACT = '' }: Masking): string[] =>
    Object.entries(redactRules(REDACT)).flatMap(([kind, rules]) =>
      rules.map((rule: unknown) => JSON.stringify([kind, rule])),
    );
  const [rules, hidden, allowed] = [rulesOf(now), rulesOf(before), now.REDACT_ALLOW ?? []];
  const isNoMoreAllowed = rules.length > 0 && before.REDACT_ALLOW?.some((value) => !allowed.includes(value));
  if (now.CONTENT === 'none' && before.CONTENT !== 'none') return true;
  return isNoMoreAllowed === true || rules.some((rule) => !hidden.includes(rule));
}
