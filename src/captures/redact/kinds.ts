/** The kinds of personal data and secrets. Each is found by its written form, and verified by its checksum or range if it has any. */

import { hash } from 'node:crypto';
import { isIP } from 'node:net';
import type { RedactKind } from '../../core/settings/redact-setting.ts';
import { BIRTHS } from './births.ts';
import { type Form, type Place, strengthAt } from './form.ts';
import LENGTHS from './iban-lengths.json' with { type: 'json' };
import { SIGNS } from './marks.ts';
import { NATIONAL_IDS } from './national-ids.ts';
import { SECRETS } from './secrets.ts';

const digitsOf = (text: string): string => text.replace(/\D/g, '');
const lower = (text: string): string => text.toLowerCase();

// --------------------------------------------------------------------------------------------------------- contact

/** Begins with the at sign, which is rare, and looks behind it for the name. */
const EMAIL =
  /(?:@|%40)(?<=(?<![\p{L}\p{N}])([\p{L}\p{N}_][\p{L}\p{M}\p{N}._%+'-]{0,63}(?:@|%40)))((?:[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.){1,8}(?:xn--[a-z\d]{2,20}|\p{L}[\p{L}\p{M}]{1,23}))(?![\p{L}\p{M}\p{N}@]|-\p{N})/gu;
/** Letters of scripts without spaces, which may stand right beside a word of another script, and escapes such as `\n`. */
export const UNSPACED =
  /[\u0e00-\u0e4f\u0e80-\u0ecf\u1000-\u103f\u1780-\u17d3\u3005\u3040-\u30ff\u3105-\u318e\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f]|\\(?:[nrtbf]|u[\da-fA-F]{4})/g;
/** Removes such letters at the edges of an address, because they belong to the sentence. */
function readEmail(item: string): string {
  const address = lower(item.normalize('NFKC')).replace('%40', '@');
  return /\S{1,64}@\S+/.exec(address.replace(UNSPACED, ' '))?.[0] ?? address;
}

/** `+`, or `00` and a separated country code, then digits in groups. */
const PHONE_INTERNATIONAL =
  /(?:\(?\+(?<![\p{L}\d+]\(?\+)[1-9]|00(?<![\p{L}\d+]00|\d[ -]00)[1-9]\d{0,2}[ .(/-]{1,2}\d)(?:[ .()/-]{0,3}\d){6,14}(?: ?x ?\d{1,5})?(?![\p{L}\d])/gu;
/**
 * The North American form. In numbers in use, area and exchange begin with 2 to 9; examples use 555 and 1xx. More digits beside the
 * number, joined by its own separator, make it part of another number.
 */
const PHONE_NORTH_AMERICAN =
  /(?<![\p{L}\d+])(?:(?:[18][ .-])?\([2-9]\d{2}\) ?\d{3}[ .-](?:\d{4}|\d\d-\d\d)(?: ?x ?\d{1,5})?(?![\p{L}\d])|(?<!\d[.-])(?:1[ .-])?[2-9]\d{2}-\d{3}-\d{4}(?: ?x ?\d{1,5})?(?![\p{L}\d]|[.-]\d)|(?<!\d[ .-])(?:1[ .-])?[2-9]\d{2}(?<separator>[ .])\d{3}\k<separator>\d{4}(?: ?x ?\d{1,5})?(?![\p{L}\d]|[ .-]\d))/gu;
/** Any number of 7 to 15 digits after a word that announces a telephone. */
const PHONE_NAMED = /(?<![\d(])\(?\d(?:[ ./()-]{0,3}\d){6,14}(?: ?x ?\d{1,5})?(?!\d)/g;
/** A date may follow a word such as "call". */
const DATE =
  /^(?:(?:19|20)\d\d([-/.])(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12]\d|3[01])|(?:0?[1-9]|[12]\d|3[01])([-/.])(?:0?[1-9]|[12]\d|3[01])\2(?:19|20)\d\d)(?!\d)/;
/** After a weak word such as "call", a number is a telephone number only in this form: with a zero, in groups, or of 10 or 11 digits. */
const LIKE_PHONE = /^(?:\(?0\d|(?!\d{1,2}(?:[ .]\d{3}){2}$)\(?\d{1,6}[ ./()-]|(?!1[5-9]\d{8}$|20\d{6})\d{10,11}$)/;

/** Removes the extension, which is not part of the value. */
const withoutExtension = (item: string): string => item.replace(/ ?x ?\d+$/, '');
const phone = (digits: string): string | undefined => (/^(\d)\1+$/.test(digits) ? undefined : digits);

function readNamedPhone(item: string, place: Place): string | undefined {
  const strength = place.follows ? 'surely' : strengthAt(place, 'phone');
  const isPhone = strength === 'surely' || (strength === 'maybe' && LIKE_PHONE.test(item));
  return isPhone && !DATE.test(item) && isIP(item) === 0
    ? phone(digitsOf(withoutExtension(item)).replace(/^00/, ''))
    : undefined;
}
/** Removes the code of North America, so that a number has the same value with and without the code. */
const readNorthAmericanPhone = (item: string): string | undefined =>
  phone(digitsOf(withoutExtension(item)).replace(/^1/, ''));

/** E.164: 15 digits at most, and 11 in the plans of North America (1) and of Russia and Kazakhstan (7). */
function readInternationalPhone(item: string): string | undefined {
  // In "+49 (0)30" the zero is for callers within the country.
  const digits = digitsOf(withoutExtension(item).replace('(0)', '')).replace(/^00/, '');
  // Some islands have four digits.
  const [least, most] = /^[17]/.test(digits) ? [11, 11] : [/^(?:290|6[789]\d)/.test(digits) ? 7 : 8, 15];
  if (digits.length < least || digits.length > most) return undefined;
  return digits.startsWith('1') ? readNorthAmericanPhone(digits) : phone(digits);
}

// ------------------------------------------------------------------------------------------------------- accounts

/**
 * 12 to 19 digits as one word, or in the groups of a card with any separators. Other data may stand on both sides, except for decimals
 * and a group of four digits on the left.
 */
const CARD =
  /(?<![\p{L}\d+]|[\p{L}\d]-|\d\.)(?:\d{12,19}|(?<!(?<!\d)\d{4}[ -])\d{4}[ \t\r\n.-]{1,3}(?:\d{4}[ \t\r\n.-]{1,3}\d{4}[ \t\r\n.-]{1,3}\d{4}(?:[ -]\d{3}(?!\d))?|\d{6}[ \t\r\n.-]{1,3}\d{4,5}))(?![\p{L}\d]|\.\d)/gu;
/**
 * The same in other groups, with single spaces or hyphens between the digits. The month of expiry may follow. Digits before the match
 * belong to the same number, unless they belong to an international telephone number.
 */
const CARD_GROUPED =
  /(?<![\p{L}\d+-]|\d[ .-](?<!\+[1-9][\d ().-]{6,22}))\d(?:[ -]?\d){11,18}(?![\p{L}\d]|[ -]\d(?!\d?\/\d)|\.\d|(?<=[ -]\d\d?)\/\d)/gu;
/** First digits and lengths of Visa, Mastercard, American Express, Discover, Diners, JCB, UnionPay, Maestro, Mir, RuPay, Verve and Troy. */
const CARD_ISSUERS =
  /^(?:4\d{12}(?:\d{3}){0,2}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}|6(?:011|5\d\d|4[4-9]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35\d{14}|(?:1800|2131)\d{11}|62\d{14,17}|(?:5018|5020|5038|5893|6304|6390|6759|676[1-3])\d{8,15}|220[0-4]\d{12,15}|(?:60|81|82|508\d|506[01]|9792)\d{12,17}(?<=^(?:\d{16}|\d{19})))$/;

/** Verifies the check digit of a card number (ISO/IEC 7812-1). */
export function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (const [index, digit] of [...digits].toReversed().entries()) {
    const doubled = Number(digit) * (1 + (index % 2));
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

/** Whether 13 digits have the check digit of an article's number (EAN), as one of ten does by chance. */
const isArticle = (digits: string): boolean =>
  digits.length === 13 && [...digits].reduce((sum, digit, at) => sum + Number(digit) * (at % 2 ? 3 : 1), 0) % 10 === 0;

function readCard(item: string): string | undefined {
  const digits = digitsOf(item);
  return CARD_ISSUERS.test(digits) && passesLuhn(digits) && !isArticle(digits) ? digits : undefined;
}

/** As one word, in groups of four, in the groups of a French account, or as digits in any groups. */
const IBAN =
  /(?<![\p{L}\p{N}])[A-Z]{2}\d{2}(?:[A-Z0-9]{11,30}|(?<separator>[ \t\r\n-]{1,3})(?:[A-Z0-9]{4}(?:\k<separator>[A-Z0-9]{4}){1,6}(?:\k<separator>[A-Z0-9]{1,4})?|\d{5}\k<separator>\d{5}\k<separator>[A-Z0-9]{11}\k<separator>\d{2})|(?:[ -]{0,2}\d){11,26})(?![\p{L}\p{N}])/giu;
/** Length of an IBAN by country, as registered with SWIFT. */
const IBAN_LENGTHS: Readonly<Record<string, number>> = LENGTHS;

const BEFORE_IBAN = /[A-Z]{2}\d{2}[A-Z0-9\s-]/i;

/** A word in capitals may follow an IBAN ("DE89… BIC …"). The country's registered length determines its end. */
function cutIban(match: string): string {
  let end = IBAN_LENGTHS[match.slice(0, 2).toUpperCase()] ?? 0;
  for (let at = 0; at < end && at < match.length; at += 1) if (' \t\r\n-'.includes(match.charAt(at))) end += 1;
  return match.slice(0, end);
}

/**
 * Returns the IBAN at the beginning of a match, without separators; `undefined` if its length is wrong for its country, or its check
 * digits are wrong (ISO 7064 MOD 97-10).
 */
export function readIban(match: string): string | undefined {
  const start = cutIban(match);
  const iban = start.replace(/[^A-Z\d]/gi, '').toUpperCase();
  const isWhole = /^(?![A-Z\d])/i.test(match.slice(start.length));
  if (!isWhole || IBAN_LENGTHS[iban.slice(0, 2)] !== iban.length) return undefined;
  const digits = (iban.slice(4) + iban.slice(0, 4)).replace(/[A-Z]/g, (letter) => String(Number.parseInt(letter, 36)));
  return BigInt(digits) % 97n === 1n ? iban : undefined;
}

/** Area 000, 666 and 900 to 999, group 00 and serial 0000 were never assigned. Digits beside it, after a space or a dot, make it part of another number. */
const SSN =
  /(?<![\p{L}\d+-])(?!000|666|9\d\d)\d{3}(?:-(?!00)\d{2}-(?!0000)\d{4}|(?<!\d[ .]\d{3})(?<separator>[ .])(?!00)\d{2}\k<separator>(?!0000)\d{4}(?![ .]\d))(?![\p{L}\d-])/gu;
/** In any form only after a word that announces the number. */
const SSN_NAMED = /(?<!\d)(?!000|666|9\d\d)\d{3}[ .-]?(?!00)\d{2}[ .-]?(?!0000)\d{4}(?!\d)/g;
const readSsn = (item: string, place: Place): string | undefined =>
  strengthAt(place, 'phone') ? undefined : digitsOf(item);

const ETHEREUM = /(?<![\p{L}\d])0x[0-9a-f]{40}(?![\p{L}\d])/giu;
const SEGWIT = /(?<![\p{L}\d])(?:bc1[02-9ac-hj-np-z]{11,71}|BC1[02-9AC-HJ-NP-Z]{11,71})(?![\p{L}\d])/gu;
/** Addresses of Bitcoin and of coins with the same checksum: Litecoin, Dogecoin, Dash, Tron. */
const BASE58_ADDRESS = /(?<![\p{L}\d])[13LMDXT][1-9A-HJ-NP-Za-km-z]{25,34}(?![\p{L}\d])/gu;

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const sha256 = (bytes: Buffer): Buffer => hash('sha256', bytes, 'buffer');

/** Verifies the checksum (Base58Check). */
function readBase58(text: string): string | undefined {
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

const IPV4 = /(?<![\p{L}\d_.])(?:\d{1,3}\.){3}\d{1,3}(?![\p{L}\d_]|\.\d)/giu;
const IPV6 =
  /(?<![\p{L}\d_:.])(?:[0-9a-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]{1,4}|(?<=::))(?![\p{L}\d_]|:[0-9a-f:])/giu;
/** Addresses of no particular machine: loopback, unspecified, networks and their masks. */
const NOBODYS = /^(?:127\.|0\.0\.0\.0$|25[2-5]\.|.*\.0\.0$|::1?$|::ffff:(?:127\.|7f))/i;
/** Four numbers below 30 are often a version, except for the addresses of a private network, which begin with 10. */
const LIKE_VERSION = /^(?!10\.)(?:[12]?\d\.){3}[12]?\d$/;
/** The end of the text before a version: a word and a space, or a sign of package names. */
const BEFORE_VERSION = /[\p{L}\p{N}][ \t]{1,3}$|[=~<>!]=[ "']?$|[\p{L}\d][/-]$|§ ?$/u;
const VERSION_WORD =
  /\b(?:section|chapter|version|release|rv|build|firmware|driver|revision|rev|ver|v|oid)[ :="']{1,4}$/i;
/** The ranges that are assigned, which exclude code such as `a::b2` and `x[1::2]`. */
const IPV6_RANGE = /^(?:[23][\da-f]{3}|f[c-f][\da-f]{2}|64:ff9b|::ffff):/i;
/** Least number of groups for an address outside of these ranges. */
const LEAST_GROUPS = 5;

function readIpv4(item: string, place: Place): string | undefined {
  if (isIP(item) === 0 || NOBODYS.test(item)) return undefined;
  const before = place.text.slice(Math.max(0, place.start - 20), place.start);
  if (VERSION_WORD.test(before)) return undefined;
  const isVersion = LIKE_VERSION.test(item) && BEFORE_VERSION.test(before) && !strengthAt(place, 'ip');
  return isVersion ? undefined : item;
}
function readIpv6(item: string): string | undefined {
  const isRange = IPV6_RANGE.test(item) || item.split(/:+/).length >= LEAST_GROUPS;
  // The parser of URLs writes an address in its shortest form.
  return isIP(item) === 6 && !NOBODYS.test(item) && isRange ? new URL(`http://[${item}]`).hostname : undefined;
}

/** Removes the separators. */
const bare = (text: string): string => lower(text).replace(/[:.-]/g, '');
const MAC =
  /(?<![\p{L}\d_]|(?<![\p{L}\d])[0-9a-f]{2}[:-])(?:[0-9a-f]{2}(?<separator>[:-])(?:[0-9a-f]{2}\k<separator>){4}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4})(?![\p{L}\d_]|[:-][0-9a-f]{2}(?![\p{L}\d]))/giu;
const WITHIN_MAC = /[:-][0-9a-f]{2}[:-][0-9a-f]{2}[:-]|\.[0-9a-f]{4}\./i;
/** An address without separators, which must follow a word that announces an address. */
const MAC_NAMED = /(?<![\p{L}\d_-])[0-9a-f]{12}(?![\p{L}\d_-])/giu;
const readNamedMac = (item: string, place: Place): string | undefined => strengthAt(place, 'mac') && lower(item);

/**
 * The kinds by their names in `REDACT`, each with its forms. A kind that may contain another kind comes first: the mail address in a
 * URL's password is a part of the password.
 */
export const KINDS = {
  ...SECRETS,
  crypto_wallet: [
    { pattern: ETHEREUM, signs: [SIGNS.digit], hex: 40, read: lower },
    { pattern: SEGWIT, signs: [SIGNS.digit | SIGNS.letter], long: 14, hint: /bc1/i, read: readSegwit },
    { pattern: BASE58_ADDRESS, signs: [SIGNS.capital], long: 26, read: readBase58 },
  ],
  email: [{ pattern: EMAIL, signs: [SIGNS.at], read: readEmail }],
  iban: [
    { pattern: IBAN, signs: [SIGNS.digit | SIGNS.letter], behind: 60, hint: BEFORE_IBAN, read: readIban, cut: cutIban },
  ],
  card: [
    { pattern: CARD, digits: 12, behind: 24, read: readCard },
    { pattern: CARD_GROUPED, digits: 12, groups: 2, behind: 24, read: readCard },
  ],
  ssn: [
    { pattern: SSN, digits: 9, groups: 3, read: readSsn },
    { pattern: SSN_NAMED, digits: 9, word: 'ssn', read: digitsOf },
  ],
  mac: [
    { pattern: MAC, signs: [SIGNS.parts], hint: WITHIN_MAC, read: bare },
    { pattern: MAC_NAMED, signs: [SIGNS.digit, SIGNS.letter], hex: 12, read: readNamedMac },
  ],
  ip: [
    { pattern: IPV4, digits: 4, dots: 3, read: readIpv4 },
    { pattern: IPV6, signs: [SIGNS.colon | SIGNS.parts], hint: /:[0-9a-f]{0,4}:/i, read: readIpv6 },
  ],
  national_id: NATIONAL_IDS,
  date_of_birth: BIRTHS,
  phone: [
    { pattern: PHONE_INTERNATIONAL, digits: 7, read: readInternationalPhone },
    { pattern: PHONE_NORTH_AMERICAN, digits: 10, groups: 3, read: readNorthAmericanPhone },
    { pattern: PHONE_NAMED, digits: 7, word: 'phone', read: readNamedPhone },
  ],
} satisfies Readonly<Record<RedactKind, readonly Form[]>>;

export type Kind = RedactKind;
