/** The kinds of personal data and secrets that are found by their form, and verified by checksums or ranges where they have any. */

import { hash } from 'node:crypto';
import { isIP } from 'node:net';
import type { RedactKind } from '../core/settings/redact-setting.ts';
import type { Form } from './form.ts';
import { SECRETS } from './secrets.ts';

const digitsOf = (text: string): string => text.replace(/\D/g, '');
const lower = (text: string): string => text.toLowerCase();

/** Seven digits: less is no number of an account or a telephone. */
const NUMBER = /\d(?:[ ./()-]{0,3}\d){6}/g;

// --------------------------------------------------------------------------------------------------------- contact

/** Begins with the sign, which is rare, and looks behind it. */
const EMAIL =
  /(?:@|%40)(?<=(?<![\p{L}\p{N}])([\p{L}\p{N}_][\p{L}\p{M}\p{N}._%+'-]{0,63}(?:@|%40)))((?:[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.){1,8}\p{L}[\p{L}\p{M}]{1,23})(?![\p{L}\p{M}\p{N}@]|-\p{N})/gu;
/** Letters of scripts that put no space before a word of another one, and escapes such as `\n`. */
export const UNSPACED =
  /[\u0e00-\u0e4f\u0e80-\u0ecf\u1000-\u103f\u1780-\u17d3\u3005\u3040-\u30ff\u3105-\u318e\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f]|\\(?:[nrtbf]|u[\da-fA-F]{4})/g;
/** An address has the same value with and without such letters at its edges, which are of the sentence. */
function readEmail(item: string): string {
  const address = lower(item.normalize('NFKC')).replace('%40', '@');
  return /\S{1,64}@\S+/.exec(address.replace(UNSPACED, ' '))?.[0] ?? address;
}

/** `+`, or `00` and a separated country code, then digits in groups. */
const PHONE_INTERNATIONAL =
  /(?<![\p{L}\d+]|\d[ -])(?:\+[1-9]|00[1-9]\d{0,2}[ .(/-]{1,2}\d)(?:[ .()/-]{0,3}\d){6,14}(?![\p{L}\d])/gu;
/** The North American form. In numbers in use, area and exchange begin with 2 to 9; examples use 555 and 1xx. */
const PHONE_NORTH_AMERICAN =
  /(?<![\p{L}\d+]|\d[ .-])(?:1[ .-])?(?:\([2-9]\d{2}\) ?\d{3}[ .-]\d{4}|[2-9]\d{2}(?<separator>[ .-])\d{3}\k<separator>\d{4})(?![\p{L}\d]|[ .-]\d)/gu;
/** Words that announce a telephone number. Chinese, Japanese and Korean ones stand within others. */
const PHONE_WORDS =
  '(?<!\\p{L})(?:t[eé]l[eé](?:ph|f)oo?n(?:[aeou]m?|nummer|number|nr)?|(?:mobile?|cell|handy|ruf)(?:phone|fon|nummer|nr|fax)(?:nummer|number|nr)?|(?:tele)?fax(?:nummer|nr)?|phone|tel|tlf|tél|mobile?|cell|handy|call|whatsapp|gsm|' +
  'portable|telepon|móvil|celular|cellulare|mobiel|komórk[ai]|cep|rufen? (?:sie )?(?:mich|uns)(?: an)?|appele[rz](?:[ -]moi)?|appelle|llám[ae](?:me|nos)|telem[oó]vel|chiam[ai](?:mi|ci)|bel (?:me|mij)|' +
  'τηλέφωνο|телефон[ауе]?|тел|моб|мобильный|(?:ال)?(?:هاتف|جوال)|טלפון|फ़ोन|फोन|मोबाइल|điện thoại)(?!\\p{L})|' +
  '(?:電話|电话|手機|手机|携帯|전화|휴대폰)(?:番号|號碼|号码|号|번호)?';
/** Words between those and the number. */
const PHONE_LINKS =
  'number|no|nr|nummer|numéro|número|numero|numer|numara(?:m|sı)?|номер|नंबर|is|me|moi|us|at|on|ist|lautet|unter|am|au|al|ao|op|pod|est|le|es|el|é|è|il|to|jest|on|это|は|是|为|為|는|은';
/** Any number of 7 to 15 digits after such a word. Begins with a digit, and looks behind it. */
const PHONE_NAMED = new RegExp(
  `(?<![\\d(])\\(?\\d(?=(?:[ ./()-]{0,3}\\d){6})(?<=(?:${PHONE_WORDS})\\.?(?:[ \\t]{0,3}(?:${PHONE_LINKS})(?![a-z])\\.?){0,3}` +
    '(?:[ \\t]{0,3}[:：=#][ \\t]{0,3}|[ \\t]{0,6})\\(?\\d)(?:[ ./()-]{0,3}\\d){6,14}(?!\\d)',
  'giu',
);
/** A date may follow the word "call". */
const DATE = /^(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4})$/;

const phone = (digits: string): string | undefined => (/^(\d)\1+$/.test(digits) ? undefined : digits);
const readNamedPhone = (item: string): string | undefined =>
  DATE.test(item) ? undefined : phone(digitsOf(item).replace(/^00/, ''));
/** The same with and without the code of North America. */
const readNorthAmericanPhone = (item: string): string | undefined => phone(digitsOf(item).replace(/^1/, ''));

/** E.164: 15 digits at most, and 11 in the plans of North America (1) and of Russia and Kazakhstan (7). */
function readInternationalPhone(item: string): string | undefined {
  // In "+49 (0)30" the zero is for callers within the country.
  const digits = digitsOf(item.replace('(0)', '')).replace(/^00/, '');
  const [least, most] = /^[17]/.test(digits) ? [11, 11] : [8, 15];
  if (digits.length < least || digits.length > most) return undefined;
  return digits.startsWith('1') ? readNorthAmericanPhone(digits) : phone(digits);
}

// ------------------------------------------------------------------------------------------------------- accounts

/**
 * 13 to 19 digits, with single spaces or hyphens between them. The month of expiry may follow. Digits before it are others of the same
 * number, but for those of an international telephone number.
 */
const CARD =
  /(?<![\p{L}\d+-]|\d[ .,-](?<!\+[1-9][\d ().-]{6,22}))\d(?:[ -]?\d){12,18}(?![\p{L}\d]|[ -]\d(?!\d?\/\d)|[.,]\d|(?<=[ -]\d\d?)\/\d)/gu;
/** First digits and lengths of Visa, Mastercard, American Express, Discover, Diners, JCB, UnionPay and Maestro. */
const CARD_ISSUERS =
  /^(?:4\d{12}(?:\d{3}){0,2}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}|6(?:011|5\d\d|4[4-9]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|(?:352[89]|35[3-8]\d)\d{12}|62\d{14,17}|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{8,15})$/;

/** Verifies the check digit of a card number (ISO/IEC 7812-1). */
export function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (const [index, digit] of [...digits].toReversed().entries()) {
    const doubled = Number(digit) * (1 + (index % 2));
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

function readCard(item: string): string | undefined {
  const digits = digitsOf(item);
  return CARD_ISSUERS.test(digits) && passesLuhn(digits) ? digits : undefined;
}

/** As one word, or in groups of four. */
const IBAN =
  /(?<![\p{L}\p{N}])[A-Z]{2}\d{2}(?:[A-Z0-9]{11,30}|(?<separator>[ -])[A-Z0-9]{4}(?:\k<separator>[A-Z0-9]{4}){1,6}(?:\k<separator>[A-Z0-9]{1,4})?)(?![\p{L}\p{N}])/giu;
/** Length of an IBAN by country, as registered with SWIFT. */
const IBAN_LENGTHS: Readonly<Record<string, number>> = Object.fromEntries(
  (
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 ' +
    'FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 ' +
    'LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 ' +
    'RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30'
  )
    .split(' ')
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))]),
);

/** A word in capitals may follow an IBAN ("DE89… BIC …"). The country's registered length determines its end. */
function cutIban(match: string): string {
  let end = IBAN_LENGTHS[match.slice(0, 2).toUpperCase()] ?? 0;
  for (let at = 0; at < end && at < match.length; at += 1) if (match[at] === ' ' || match[at] === '-') end += 1;
  return match.slice(0, end);
}

/**
 * Returns the IBAN at the beginning of a match, without separators; `undefined` if its length is not that of its country, or its check
 * digits are wrong (ISO 7064 MOD 97-10).
 */
export function readIban(match: string): string | undefined {
  const start = cutIban(match);
  const iban = start.replace(/[ -]/g, '').toUpperCase();
  const isWhole = /^([ -]|$)/.test(match.slice(start.length)) && /^[A-Z0-9]+$/.test(iban);
  if (!isWhole || IBAN_LENGTHS[iban.slice(0, 2)] !== iban.length) return undefined;
  const digits = (iban.slice(4) + iban.slice(0, 4)).replace(/[A-Z]/g, (letter) => String(Number.parseInt(letter, 36)));
  return BigInt(digits) % 97n === 1n ? iban : undefined;
}

/** Area 000, 666 and 900 to 999, group 00 and serial 0000 were never assigned. */
const SSN =
  /(?<![\p{L}\d-]|\d[ .])(?!000|666|9\d\d)\d{3}(?<separator>[- .])(?!00)\d{2}\k<separator>(?!0000)\d{4}(?![\p{L}\d-]|[ .]\d)/gu;
/** Without separators only after a word that announces the number. */
const SSN_NAMED =
  /(?<!\d)(?!000|666|9\d\d)\d(?<=\b(?:ssn|social security(?: number| no\.?)?)\b[^\p{L}\d]{0,12}(?:is[^\p{L}\d]{1,3})?\d)\d{2}(?!00)\d{2}(?!0000)\d{4}(?!\d)/giu;

const ETHEREUM = /(?<![\p{L}\d])0x[0-9a-f]{40}(?![\p{L}\d])/giu;
const SEGWIT = /(?<![\p{L}\d])(?:bc1[02-9ac-hj-np-z]{11,71}|BC1[02-9AC-HJ-NP-Z]{11,71})(?![\p{L}\d])/gu;
const LEGACY_BITCOIN = /(?<![\p{L}\d])[13][1-9A-HJ-NP-Za-km-z]{25,34}(?![\p{L}\d])/gu;

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const sha256 = (bytes: Buffer): Buffer => hash('sha256', bytes, 'buffer');

/** Verifies the checksum (Base58Check). */
function readLegacyBitcoin(text: string): string | undefined {
  let value = 0n;
  for (const character of text) value = value * 58n + BigInt(BASE58.indexOf(character));
  const bytes = Buffer.from(value.toString(16).padStart(50, '0'), 'hex');
  const checksum = sha256(sha256(bytes.subarray(0, 21))).subarray(0, 4);
  return checksum.equals(bytes.subarray(21)) ? text : undefined;
}

const BECH32 = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l';
const BECH32_GENERATOR = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3];

/** Verifies the checksum of a segwit address (BIP 173, and BIP 350 from version 1 on). */
function readSegwit(text: string): string | undefined {
  const address = lower(text);
  const values = [3, 3, 0, 2, 3, ...[...address.slice(3)].map((character) => BECH32.indexOf(character))];
  let sum = 1;
  for (const value of values) {
    const top = sum >>> 25;
    sum = ((sum & 0x1ffffff) << 5) ^ value;
    for (const [bit, term] of BECH32_GENERATOR.entries()) if ((top >>> bit) & 1) sum ^= term;
  }
  return sum === 1 || sum === 0x2bc830a3 ? address : undefined;
}

// -------------------------------------------------------------------------------------------------------- networks

/** After such a word, four numbers are those of a section or a version. */
const IPV4 = /(?<![\p{L}\d_.]|\b(?:section|chapter|version|release) |§ ?)(?:\d{1,3}\.){3}\d{1,3}(?![\p{L}\d_]|\.\d)/giu;
const IPV6 = /(?<![\p{L}\d_:.])(?:[0-9a-f]{0,4}:){2,7}(?:[0-9a-f]{1,4}|(?:\d{1,3}\.){3}\d{1,3})?(?![\p{L}\d_:])/giu;
/** A URL has the shortest form of an IPv6 address. */
const shortest = (text: string): string => (isIP(text) === 6 ? new URL(`http://[${text}]`).hostname : text);
/** Of `ab::cd`, which code has too, only forms with a digit count. */
const address = (text: string): string | undefined => (isIP(text) > 0 && /\d/.test(text) ? shortest(text) : undefined);

/** Without separators. */
const bare = (text: string): string => lower(text).replace(/[:.-]/g, '');
const MAC =
  /(?<![\p{L}\d_:-])(?:[0-9a-f]{2}(?<separator>[:-])(?:[0-9a-f]{2}\k<separator>){4}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4})(?![\p{L}\d_:-])/giu;

// ----------------------------------------------------------------------------------------------------------- birth

const MONTHS =
  'jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|jän|mär|mai|okt|dez|fév|fev|avr|juin|juil|aoû|aou|déc|ene|abr|ago|dic|gen|mag|giu|lug|set|ott|out|mrt|mei|янв|фев|мар|апр|мая|июн|июл|авг|сен|окт|ноя|дек|sty|lut|kwi|maj|cze|lip|sie|wrz|paź|lis|gru';
const DATES = `\\d{4}[-/.년年] ?\\d{1,2}[-/.월月] ?\\d{1,2}[일日]?|\\d{1,2}[-/.] ?\\d{1,2}[-/.] ?\\d{2}(?:\\d\\d)?|\\d{1,2}(?:st|nd|rd|th|er|\\.|º)?(?: of| de)? (?:${MONTHS})\\p{L}{0,8}\\.?,?(?: de)? \\d{4}|(?:${MONTHS})\\p{L}{0,8}\\.? \\d{1,2}(?:st|nd|rd|th)?,? \\d{4}`;
/** A date of birth after a word that announces it. */
const BORN = new RegExp(
  '(?:(?<!\\p{L})(?:date[ _-]?of[ _-]?birth|birth[ _-]?da(?:te|y)|d\\.?o\\.?b|born|geboren|geburts(?:datum|tag)|geb\\.?|geboortedatum|née?|naissance|nacid[oa]|nací|nacimiento|nat[oa]|nascita|nascid[oa]|nasci|nascimento|född|født|födelsedatum|fødselsdato|ur\\.|urodz\\p{L}{1,4}|naroz\\p{L}{2,4}|született|syntynyt|doğum tarihi[mn]?|' +
    'дата (?:рождения|народження)|родил(?:ся|ась)|γεννήθηκ\\p{L}{1,3}|γέννησης|ngày sinh|tanggal lahir|تاريخ (?:ال)?ميلاد\\p{L}?|مواليد|תאריך לידה|जन्म(?: ?(?:तिथि|दिन))?)' +
    '(?!\\p{L})|生年月日|出生(?:日期|年月日)?|생년월일)[^\\p{L}\\d]{0,5}(?:(?:is|was|on|in|the|am|op|le|el|il|em|ist|est|es|się|dnia|den|dne|στις|は|是|为|은)(?!\\p{L})[^\\p{L}\\d]{0,3}){0,3}' +
    `(${DATES})(?!\\d)`,
  'giu',
);
/** A date before such a word. */
const BORN_BEFORE = new RegExp(`(?<!\\d)(?:${DATES})(?=[ ,]{0,2}(?:gebore|生まれ|出生|출생|태어))`, 'giu');
/** A part of each such word. */
const BORN_HINT =
  /birth|born|gebor|geburt|geb|d\.?o\.?b|né|naiss|nac|nat[oa]|nasc|f[öø]d|ur\.|urodz|naroz|szület|synty|doğum|рожд|родил|народж|γ[εέ]νν|sinh|lahir|ميلاد|مواليد|לידה|जन्म|生年|出生|생년|生まれ|출생|태어/gi;

/**
 * The kinds by their names in `REDACT`, each with its forms. A kind that may contain another stands before it: the mail address
 * in a URL's password is a part of the password.
 */
export const KINDS = {
  ...SECRETS,
  crypto_wallet: [
    { pattern: ETHEREUM, hint: /0x/i, read: lower },
    { pattern: SEGWIT, hint: /bc1/i, read: readSegwit },
    { pattern: LEGACY_BITCOIN, hint: /[13][1-9A-HJ-NP-Za-km-z]{25}/, read: readLegacyBitcoin },
  ],
  email: [{ pattern: EMAIL, hint: /@|%40/, read: readEmail }],
  iban: [{ pattern: IBAN, hint: /[A-Z]{2}\d{2}[A-Z0-9 -]/i, read: readIban, cut: cutIban }],
  card: [{ pattern: CARD, hint: NUMBER, reach: [5, 65], read: readCard }],
  ssn: [
    { pattern: SSN, hint: NUMBER, reach: [5, 40], read: digitsOf },
    { pattern: SSN_NAMED, hint: NUMBER, reach: [50, 40], read: digitsOf },
  ],
  mac: [{ pattern: MAC, hint: /[:-][0-9a-f]{2}[:-][0-9a-f]{2}[:-]|\.[0-9a-f]{4}\./gi, reach: [5, 20], read: bare }],
  ip: [
    { pattern: IPV4, hint: /\d\.\d{1,3}\.\d{1,3}\./g, reach: [16, 18], read: address },
    { pattern: IPV6, hint: /:[0-9a-f]{0,4}:/gi, reach: [41, 56], read: address },
  ],
  date_of_birth: [
    { pattern: BORN, hint: BORN_HINT, reach: [12, 90], read: lower },
    { pattern: BORN_BEFORE, hint: BORN_HINT, reach: [40, 90], read: lower },
  ],
  phone: [
    { pattern: PHONE_INTERNATIONAL, hint: NUMBER, reach: [8, 95], read: readInternationalPhone },
    { pattern: PHONE_NORTH_AMERICAN, hint: NUMBER, reach: [8, 50], read: readNorthAmericanPhone },
    { pattern: PHONE_NAMED, hint: NUMBER, reach: [70, 95], read: readNamedPhone },
  ],
} satisfies Readonly<Record<RedactKind, readonly Form[]>>;

export type Kind = RedactKind;
