/** Secrets: keys, tokens, passwords, private keys. */

import type { RedactKind } from '../../core/settings/redact-setting.ts';
import type { Form, Place } from './form.ts';
import ISSUERS from './issuers.json' with { type: 'json' };
import { SIGNS } from './marks.ts';
import WORDS_TABLE from './words.json' with { type: 'json' };
import { type Word, wordsBefore } from './words.ts';

const asIs = (text: string): string => text;
/** A name: words, which a number may follow, such as `algorithm-rsa-2048`. */
const WORDS = /^\p{L}\p{Ll}*(?:[-_./ ](?:\p{L}\p{Ll}*|\p{Lu}+|\d{1,4}))*\d{0,4}$/u;
const hasDigit = (text: string): boolean => /\d/.test(text) && /\p{L}/u.test(text);

// ------------------------------------------------------------------------------------------------------------ URLs

/** User and password of a URL. Begins with `://`, which is rare, and looks behind it for the scheme. The last `@` ends the password. */
const URL_USER = /:\/\/(?<=\b[a-z][a-z0-9+.-]{1,20}:\/\/)([^\s/?#@:"'<>]*:[^\s/?#"'<>]+)(?=@)/giu;
/** The value of a parameter of a URL. */
const PARAMETER = /[?&#;](?:amp;)?[\w.-]{1,40}=(?=[^&#\s"'<>\\]{6})/g;
const PARAMETER_VALUE = /[^&#\s"'<>\\]+/y;
/** Names of parameters that grant access if their value looks like a key: `?code=200` is a status. */
const MAYBE_ACCESS =
  /[?&#;](?:amp;)?(?:[\w.-]{0,30}[_.-])?(?:code|key|auth|s?id|session|session_?id|jsessionid|phpsessid|invite|invitation|ticket|otp|credential|assertion|verifier|jwt|hash|confirm|confirmation|magic|link|share|activation|verification)=$/i;
const IS_ACCESS = /[?&#;](?:amp;)?(?:sig|signature|auth|x-(?:amz|goog|ms)-(?:signature|credential))=$/i;

function parameterAt({ text, start: place }: Place): ReturnType<NonNullable<Form['at']>> {
  const before = text.slice(Math.max(0, place - 50), place);
  const value = beginningAt(PARAMETER_VALUE, text, place);
  const isSure = IS_ACCESS.test(before) || groupsBefore(text, place).length > 0;
  const isAccess = isSure ? !isPlaceholder(value) : MAYBE_ACCESS.test(before) && isKey(value, 10);
  return isAccess ? wholeAt(PARAMETER_VALUE, text, place, value) : undefined;
}

/** Characters of a value that decide whether it is a secret. The limit bounds the time for a hostile text of many long values. */
const MAX_BEGINNING = 200;
const beginningAt = (run: RegExp, text: string, place: number): string => {
  run.lastIndex = 0;
  return run.exec(text.slice(place, place + MAX_BEGINNING))?.[0] ?? '';
};
/** Returns the whole value with this beginning. */
function wholeAt(run: RegExp, text: string, place: number, beginning: string): { length: number; value: string } {
  run.lastIndex = place;
  const value = beginning.length < MAX_BEGINNING ? beginning : (run.exec(text)?.[0] ?? beginning);
  return { length: value.length, value };
}

// ---------------------------------------------------------------------------------------------------- issued keys

type Issued = { prefix: string; alphabet?: string; length?: string; form?: string };

/** Patterns for the keys of issuers, by the first two characters of the key; by the empty text if these vary. */
const ISSUED: ReadonlyMap<string, RegExp> = new Map(
  [...Map.groupBy(ISSUERS as Issued[], ({ prefix }) => prefix.slice(0, 2).padStart(2, ' ').replace(/ ./, ''))].map(
    ([beginning, keys]) => [beginning, new RegExp(`(?:${keys.map(formOf).join('|')})(?![\\p{L}\\d_-])`, 'uy')],
  ),
);
function formOf({ prefix, alphabet, length, form }: Issued): string {
  return form ?? `${prefix.replace(/[.+$/]/g, '\\$&')}[${alphabet}]{${length}}`;
}

/** The place before a long run of characters that keys consist of. */
const BEFORE_KEY = /(?:^|[^\w-])(?=[\w$][\w.$+/~:=%-]{15})/g;

function issuedAt({ text, start }: Place): ReturnType<NonNullable<Form['at']>> {
  for (const beginning of [text.slice(start, start + 2), '']) {
    const pattern = ISSUED.get(beginning);
    if (pattern === undefined) continue;
    pattern.lastIndex = start;
    const value = pattern.exec(text)?.[0];
    if (value !== undefined && !/^[a-z]+(?:[-_.][a-z]+)*$/.test(value)) return { length: value.length, value };
  }
  return undefined;
}

/** A private key up to its last line. If the key was cut off, all its lines of base64. */
const BEFORE_PRIVATE_KEY = /(?=-{4,5} ?BEGIN )/g;
const PRIVATE_KEY =
  /-{4,5} ?BEGIN (?:[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1) ?-{4,5}(?:[\sA-Za-z0-9+/=,:;.()\\]*(?:-(?!---)[\sA-Za-z0-9+/=,:;.()\\]*)*-{4,5} ?END [A-Za-z0-9 ]{0,40} ?-{4,5}|(?:(?:\s|\\+[nr]){1,4}(?:[A-Za-z-]{4,20}: [^\r\n\\]{1,100}|[A-Za-z0-9+/=]{16,}))+(?:(?:\s|\\+[nr]){1,4}[A-Za-z0-9+/]{1,15}={0,2}(?![\w.,]))?)/uy;
const JWT = /(?<![\w.-])eyJ[\w-]{8,}\.(?:eyJ[\w-]{8,}\.[\w-]*|[\w-]*(?:\.[\w-]+){3})(?![\w-])/gu;

// ------------------------------------------------------------------------------------------- values after a word

/** A placeholder for a value, or code that gets the value. */
const PLACEHOLDER =
  /^(?:<|\$\{|\$\(|\$[A-Z_]+$|\{|%\w+%|\[|\*{3}|[xX.•·_*-]+$|!\w+$|ENC\[|\(|\/|\.\.?\/|~\/|https?:|arn:|file:|env:|vault:|op:|(?:your|my|example|sample|dummy)[_-][\w-]*$|[a-z-]{2,20}-\.{3}|(?:process|os|self|this|config|settings|env|args|ctx|req|request|secrets|data|options|opts|params|props|state|user|form|body|response|res|result|credentials)(?:\.|\[|->)|[a-z_$][\w$]*(?:(?:\.|->|::)[a-z_$][\w$]*)*\()/i;
/** Words that stand in the place of a value, in code and in forms. */
const NO_VALUES = new Set(WORDS_TABLE.noValues.split(', '));
const isPlaceholder = (text: string): boolean =>
  PLACEHOLDER.test(text) || NO_VALUES.has(/^[a-z]+(?=[^a-z\d]*$|[_:|-])/i.exec(text)?.[0].toLowerCase() ?? '');
/** Names of algorithms and of encodings, and numbers with a unit: "SHA-256", "base64-encoded", "8-character". */
const TECHNICAL =
  /^(?:(?:sha|md|aes|des|rsa|ecdsa|ed|base|utf|ascii|oauth|[hrep]s|hmac|pbkdf|bcrypt|scrypt|argon|tls|ssl|v|http|ipv|x|u?int|float|blake|crc|iso|rfc|fips|varchar|nist)[-_ ]?\d{1,4}(?:[-./]?\d{1,4}){0,3}(?:[-_]\p{L}{1,12})?|\d+[-+ ]?[a-z]?\+?|\d+[-+]\p{L}{2,12}|\d{1,2}[:.]\d\d.*|\d{4}-\d\d-\d\d.*)$/iu;
const SIGN_WITHIN = /[!@#$%^&*?+=~](?=\p{L})|\p{L}[!@#$%^&*?+=~](?=.)/u;

/** Whether a text has digits and letters as keys have, and no words. */
const isKey = (text: string, least: number): boolean =>
  text.length >= least &&
  !WORDS.test(text) &&
  !PLACEHOLDER.test(text) &&
  (hasDigit(text) || (MIXED_CASE.test(text) && text.length >= 16));
/** Capitals at several places, as random letters have them. */
const MIXED_CASE = /\p{Ll}\p{Lu}.*\p{Lu}\p{Ll}/u;

/** Whether a text is a password: with a digit and a letter, or with a sign within. In a notation for values only, any word is a password. */
function isPassword(text: string, notation: Notation): boolean {
  if (isPlaceholder(text)) return false;
  if (/^\d+$/.test(text)) return notation !== 'told' && text.length >= (notation === 'sure' ? 4 : 6);
  if (TECHNICAL.test(text)) return false;
  const isMixed = hasDigit(text) || SIGN_WITHIN.test(text);
  return (
    text.length >= (notation === 'told' ? 6 : 4) && (isMixed || (notation === 'sure' && /^[\p{L}_.-]+$/u.test(text)))
  );
}

/** Returns the announcements of secrets in the words before a place. */
const isOfSecrets = ({ kind }: Word): boolean => kind === 'secret';
const groupsBefore = (text: string, place: number): Word[] => wordsBefore(text, place).filter(isOfSecrets);

const QUOTED = /(?:[^"'`\\\r\n]|\\[^"'`\\\r\n]|\\\\(?!["'`\\])|(?<=[\p{L}\d])'(?=[\p{L}\d]))+/uy;
/** A value without quotes. A `;`, `&` or `,` ends the value if another name and value follow. */
const UNQUOTED = /(?:<(?!\/)|[^<\s"'`\\;&,|]|[;&,|](?!\s|[\w .-]{1,40}=|$))+/uy;
/** Text before a value that may be any word: a name in capitals, a name in a connection string, or an option of a command. */
const SURE = /(?:\b[A-Z][A-Z\d_]{2,60}=|[;"'][ \w]{1,30}=|(?<=\s)--?[\w-]{2,40}[= ])$/;
const SIGN_BEFORE = /[:=：>][ \t*]{0,6}\\{0,3}["'`“„«]?$/;

type Notation = 'told' | 'assigned' | 'sure';
/** A letter in a JSON escape. The digits of the escape do not belong to the value. */
const ESCAPED_LETTER = /\\u([\da-f]{4})/gi;
function isSecret(group: string, value: string, notation: Notation): boolean {
  const text = value.replace(ESCAPED_LETTER, (_, code) => String.fromCharCode(Number.parseInt(code, 16)));
  return group === 'password' ? isPassword(text, notation) : isKey(text, notation === 'told' ? 16 : 8);
}

/** Reads the whole value of a field whose name announces a secret. */
function wholeSecret(text: string, told: readonly Word[]): string | undefined {
  const field = told.find(isOfSecrets);
  const isWhole = field !== undefined && !/\s/.test(text) && isSecret(field.of, text.slice(0, MAX_BEGINNING), 'sure');
  return isWhole ? text : undefined;
}

/** Reads the secret at a place that words before it announce. */
function secretAt({ text, start }: Place): ReturnType<NonNullable<Form['at']>> {
  // Every value has four characters. This check comes first, because reading words takes longer.
  const [group] = /^\S{4}/.test(text.slice(start, start + 4)) ? groupsBefore(text, start) : [];
  if (group === undefined) return undefined;
  const before = text.slice(Math.max(0, start - 80), start);
  const isQuoted = /["'`“„«]$/.test(before);
  const isSure = SURE.test(before);
  const notation =
    isSure || (isQuoted && SIGN_BEFORE.test(before)) ? 'sure' : SIGN_BEFORE.test(before) ? 'assigned' : 'told';
  // Not a value: the operand of a comparison, text after a word with several meanings, and text on the next line.
  if (/[=!]=[ \t]*$/.test(before)) return undefined;
  if (notation === 'told' && (group.isWeak || /[\r\n][^\S\r\n]*$/.test(before))) return undefined;
  const pattern = isQuoted ? QUOTED : UNQUOTED;
  const read = beginningAt(pattern, text, start);
  const value = isQuoted ? read : read.replace(/(?:\*\*)?[.,:;)\]}>]{0,5}$/, '');
  return !/\s/.test(value) && isSecret(group.of, value, notation) ? wholeAt(pattern, text, start, value) : undefined;
}

/** The place after a sign of assignment. A colon occurs in sentences too, so a quote, a digit or a sign must follow it. */
const ASSIGNED =
  /(?:=[=>]?|[:：]=?(?=[ \t*\\]{0,6}(?:["'`]|[^\s]{0,60}[\d!@#$%^&*?+~]))|(?<=<[\w:.-]{2,60})>)[ \t]{0,4}(?:\*\*[ \t]?)?\\{0,3}["'`]?(?=[^\s"'`:=\\>])/g;
/** A digit beside another character of a word, or capitals: each key has such a place, and most texts have few. */
const MIXED = /\d[^\s\d.,;:)]|[^\s\d(]\d|[A-Z]{12}|_[A-Za-z]{12}/;
/** The first digit of a word. In scripts without spaces, the word may be within other words. */
const TOLD =
  /\d(?<=(?:[^\s:=][ \t]{1,3}\\{0,3}["'`“„«]?|[\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7a3])([^\s\d"'`：\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7a3]{0,40})\d)/g;

// --------------------------------------------------------------------------------------- commands, headers, files

const isGiven = (text: string): boolean => !PLACEHOLDER.test(text) && !/^(?:\d+|root|wheel|staff)$/.test(text);
/** Returns a function that reads a value of any length. @param value a sticky pattern @param before must match the text before the value */
const valueAt =
  (value: RegExp, isValue: (text: string) => boolean, before?: RegExp): Form['at'] =>
  ({ text, start }) => {
    value.lastIndex = start;
    const item = value.exec(text)?.[0] ?? '';
    const isHere = item !== '' && isValue(item) && (before?.test(text.slice(Math.max(0, start - 400), start)) ?? true);
    return isHere ? { length: item.length, value: item } : undefined;
  };

/** User and password of a command. */
const USER_OPTION = /\s(?:-u|--(?:proxy-)?user)[ =]?["']?[\w.@\\+-]{0,60}:/g;
const USER_PASSWORD = /[^\s"'`]{3,100}/y;
const USES_USER = /\b(?:curl|http|wget|xh)\b[^|]{0,320}$/;
/** The option for a password in a command. */
const PASSWORD_OPTION = /\s(?:-p ?|-a |-pass(?:in|out)? pass:)["']?(?=[^-])/g;
const USES_PASSWORD =
  /(?:\bsshpass\s+-p ?|\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^|\r\n]{0,100}\s-p|\bredis-cli\b[^|\r\n]{0,100}\s-a |\bdocker login\b[^|\r\n]{0,100}\s-p |-pass(?:in|out)? pass:)["']?$/;
const PASSWORD = /[^\s"'`]{4,100}/y;
/** Host, port, database, user and password of PostgreSQL. */
const PGPASS = /(?<![^\s"'`])[\w.*-]{1,100}:(?:\d{2,5}|\*):[\w*-]{1,60}:[\w.*@-]{1,60}:([^\s"'`:]{4,100})(?![^\s"'`])/g;
const PORT = /:(?:\d{2,5}|\*):[\w*-]+:/;

const isCredential = (text: string): boolean =>
  (hasDigit(text) || (text.length >= 12 && MIXED_CASE.test(text))) && !isPlaceholder(text);
const AUTHORIZATION =
  /\b(?:proxy-)?authorization["']?\s{0,3}[:=]\s{0,3}\\{0,3}["']?(?:[a-z][a-z0-9-]{1,20}[ \t]{1,3})?(?=[\w+/.~:=-]{6})/gi;
const CREDENTIALS =
  /(?:Credential=[^\s"']{1,200}[\s,]{1,3}SignedHeaders=[^\s"',]{1,200}[\s,]{1,3}Signature=)?[\w+/.~:=-]{6,}/y;
const COOKIE = /\b(?:set-)?cookie["']?\s{0,3}[:=]\s{0,3}\\{0,3}["']?(?=[^\s"'\\=;]{1,60}=)/gi;
const COOKIES = /[^\s"'\\=;]{1,60}=[^\r\n"'\\]{6,}/y;

const ASSIGNS = [SIGNS.equals, SIGNS.colon];

/** The kinds of secrets, each with its forms, in the order of the search. */
export const SECRETS = {
  jwt: [{ pattern: JWT, signs: [SIGNS.capital | SIGNS.parts], long: 11, hint: /eyJ[\w-]/, read: asIs }],
  url_credentials: [
    { pattern: URL_USER, signs: [SIGNS.at | SIGNS.colon], read: asIs },
    { pattern: PARAMETER, signs: [SIGNS.equals], at: parameterAt },
  ],
  api_key: [
    { pattern: BEFORE_PRIVATE_KEY, signs: [SIGNS.option], at: valueAt(PRIVATE_KEY, () => true) },
    { pattern: BEFORE_KEY, signs: [SIGNS.digit | SIGNS.letter, SIGNS.capital], long: 15, hint: MIXED, at: issuedAt },
    { pattern: AUTHORIZATION, signs: ASSIGNS, behind: 50, at: valueAt(CREDENTIALS, isCredential) },
    { pattern: COOKIE, signs: ASSIGNS, behind: 70, at: valueAt(COOKIES, isCredential) },
    { pattern: USER_OPTION, signs: [SIGNS.option], behind: 70, at: valueAt(USER_PASSWORD, isGiven, USES_USER) },
    { pattern: PASSWORD_OPTION, signs: [SIGNS.option], at: valueAt(PASSWORD, isGiven, USES_PASSWORD) },
    {
      pattern: PGPASS,
      signs: [SIGNS.colon | SIGNS.parts],
      hint: PORT,
      read: (text) => (isGiven(text) ? text : undefined),
    },
    { pattern: ASSIGNED, signs: ASSIGNS, behind: 70, at: secretAt, whole: wholeSecret },
    { pattern: TOLD, signs: [SIGNS.digit | SIGNS.letter], at: secretAt },
  ],
} satisfies Partial<Record<RedactKind, readonly Form[]>>;
