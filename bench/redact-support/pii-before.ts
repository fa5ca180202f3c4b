/** `pii_detected` as it was before captures could be masked: the measure of the time that masking may take. */

import { passesLuhn, readIban } from '../../src/captures/redact/kinds.ts';
import { messageText, replyTexts, requestTexts } from '../../src/captures/reply-text.ts';
import type { CodeScorer } from '../../src/judge/types.ts';

interface Finding {
  kind: 'e-mail address' | 'phone number' | 'card number' | 'IBAN' | 'US social security number';
  /** The personal data itself, for comparison only. Never log it. */
  match: string;
  /** The form that may be shown. */
  masked: string;
}

/**
 * Request and reply are each read up to this length. 2 million characters are about 500,000 tokens, more than most models
 * read. The patterns are bounded and anchored by look-behinds, so the time is linear in the length.
 */
const MAX_CHARS = 2_000_000;

const EMAIL =
  /(?<![\p{L}\p{N}._%+-])[\p{L}\p{N}][\p{L}\p{N}._%+-]{0,63}@(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?\.){1,8}\p{L}{2,24}(?![\p{L}\p{N}@-])/gu;

/** 13 to 19 digits, with single spaces or hyphens between them. */
const CARD = /(?<![\p{L}\d+-]|\d[ .,-])\d(?:[ -]?\d){12,18}(?![\p{L}\d]|[ -]\d|[.,]\d)/gu;
/** First digits and lengths of Visa, Mastercard, American Express, Discover, Diners, JCB, UnionPay and Maestro. */
const CARD_ISSUERS =
  /^(?:4\d{12}(?:\d{3}){0,2}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}|6(?:011|5\d\d|4[4-9]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|(?:352[89]|35[3-8]\d)\d{12}|62\d{14,17}|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{8,15})$/;

/** Without spaces, or in groups of four. */
const IBAN =
  /(?<![\p{L}\p{N}])[A-Z]{2}\d{2}(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,4})?)(?![\p{L}\p{N}])/gu;
/** Area 000, 666 and 900 to 999, group 00 and serial 0000 were never assigned. */
const SSN = /(?<![\p{L}\d-]|\d[ .])(?!000|666|9\d\d)\d{3}([- ])(?!00)\d{2}\1(?!0000)\d{4}(?![\p{L}\d-]|[ .]\d)/gu;
/** Without separators only after a word that announces the number. */
const SSN_NAMED =
  /\b(?:ssn|social security(?: number| no\.?)?)\b[^\p{L}\d]{0,12}((?!000|666|9\d\d)\d{3}(?!00)\d{2}(?!0000)\d{4})(?!\d)/giu;

/** `+`, or `00` and a separated country code, then digits in groups. */
const PHONE_INTERNATIONAL =
  /(?<![\p{L}\d+]|\d[ -])(?:\+[1-9]|00[1-9]\d{0,2}[ .(/-]{1,2}\d)(?:[ .()/-]{0,3}\d){6,14}(?![\p{L}\d])/gu;
/** The North American form. In numbers in use, area and exchange begin with 2 to 9; examples use 555 and 1xx. */
const PHONE_NORTH_AMERICAN =
  /(?<![\p{L}\d+]|\d[ .-])(?:1[ .-])?(?:\([2-9]\d{2}\) ?\d{3}[ .-]\d{4}|[2-9]\d{2}([ .-])\d{3}\1\d{4})(?![\p{L}\d]|[ .-]\d)/gu;
/** Any number of 7 to 15 digits after a word that announces a telephone number. */
const PHONE_NAMED =
  /\b(?:phone|telephone|tel|mobile|cell|call|whatsapp|fax|telefon|handy|mobil|téléphone|tél|portable|teléfono|móvil|celular|telefone|telefono|cellulare|telefoon|mobiel)\b\.?(?:[ \t]{1,3}(?:number|no|nummer|numéro|número|numero|is|me|us|at|on|ist|unter|am|au|al)\b\.?){0,3}[ \t]{0,3}[:=]?[ \t]{0,3}((?:\(?\d){1}(?:[ ./()-]{0,3}\d){6,14})(?!\d)/giu;

/** A date may follow the word "call". */
const DATE = /^(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4})$/;

const digitsOf = (text: string): string => text.replace(/\D/g, '');

/** E.164: 15 digits at most, and 11 in the plans of North America (1) and of Russia and Kazakhstan (7). */
const isInternational = (digits: string): boolean =>
  /^[17]/.test(digits) ? digits.length === 11 : digits.length >= 8 && digits.length <= 15;

/** Returns every piece of personal data in the text once, in the order of kinds. */
export function findPii(whole: string): Finding[] {
  const found = new Map<string, Finding>();
  let text = whole.slice(0, MAX_CHARS);
  // A match is hidden from the next patterns: the digits of an IBAN are not a telephone number.
  const take = (pattern: RegExp, read: (match: RegExpMatchArray) => Finding | undefined) => {
    text = text.replace(pattern, (...parts) => {
      const groups = parts.slice(
        0,
        parts.findIndex((part) => typeof part === 'number'),
      ) as unknown as RegExpMatchArray;
      const finding = read(groups);
      if (finding === undefined) return groups[0] as string;
      found.set(`${finding.kind} ${finding.match}`, finding);
      return ' ';
    });
  };

  take(EMAIL, ([match]) => ({
    kind: 'e-mail address',
    match: (match as string).toLowerCase(),
    masked: `***@***${(match as string).slice((match as string).lastIndexOf('.'))}`,
  }));
  take(IBAN, ([match]) => {
    const iban = readIban(match as string);
    return iban === undefined ? undefined : { kind: 'IBAN', match: iban, masked: `${iban.slice(0, 2)}***` };
  });
  take(CARD, ([match]) => {
    const digits = digitsOf(match as string);
    if (!CARD_ISSUERS.test(digits) || !passesLuhn(digits)) return undefined;
    return { kind: 'card number', match: digits, masked: `***${digits.slice(-4)}` };
  });
  const ssn = (match: string): Finding => ({
    kind: 'US social security number',
    match: digitsOf(match),
    masked: '***-**-****',
  });
  take(SSN, ([match]) => ssn(match as string));
  take(SSN_NAMED, ([, number]) => ssn(number as string));
  const phone = (digits: string): Finding | undefined =>
    /^(\d)\1+$/.test(digits) ? undefined : { kind: 'phone number', match: digits, masked: `***${digits.slice(-2)}` };
  take(PHONE_INTERNATIONAL, ([match]) => {
    const digits = digitsOf(match as string).replace(/^00/, '');
    return isInternational(digits) ? phone(digits) : undefined;
  });
  take(PHONE_NORTH_AMERICAN, ([match]) => phone(digitsOf(match as string)));
  take(PHONE_NAMED, ([, number]) => (DATE.test(number as string) ? undefined : phone(digitsOf(number as string))));
  return [...found.values()];
}

function describe(side: string, findings: Finding[]): string {
  const byKind = Map.groupBy(findings, ({ kind }) => kind);
  const parts = [...byKind].map(([kind, list]) => {
    const shown = list.slice(0, 3).map(({ masked }) => masked);
    return `${list.length} ${kind}${list.length === 1 ? '' : kind.endsWith('s') ? 'es' : 's'} (${shown.join(', ')}${list.length > 3 ? ', …' : ''})`;
  });
  return `${side}: ${parts.join(', ')}`;
}

export const piiDetected: CodeScorer = {
  kind: 'code',
  name: 'pii_detected',
  version: '1',
  fails: true,
  description:
    'Whether the request or the reply holds personal data of these kinds: e-mail addresses, phone numbers (with a ' +
    'country code, in the North American form, or after a word such as "phone"), card numbers (issuer, length, Luhn ' +
    'checksum), IBANs (country, length, mod 97), US social security numbers (form and ranges). What the system prompt ' +
    'itself states is the operator’s own and not counted. It does not find names, addresses, dates of birth, other ' +
    'national ids, or national phone numbers without any hint, and not what is inside images; one number in ten with ' +
    'the form of a card passes the checksum by chance. The rationale never shows what was found, only masks.',
  score(capture) {
    const messages = capture.conversation?.messages ?? [];
    const isSystem = (role: string) => role === 'system' || role === 'developer';
    const known = new Set(
      messages
        .filter(({ role }) => isSystem(role))
        .flatMap((message) => findPii(messageText(message)))
        .map(({ match }) => match),
    );
    const asked = capture.conversation
      ? messages.filter(({ role }) => !isSystem(role)).map(messageText)
      : textsOf(requestTexts(capture));
    const answered = textsOf(replyTexts(capture));
    if (asked === undefined && answered === undefined) return { notJudgeable: 'notText' };
    const unknown = (texts: string[] | undefined) =>
      findPii((texts ?? []).join('\n')).filter(({ match }) => !known.has(match));
    const sides = [
      { side: 'request', findings: unknown(asked) },
      { side: 'reply', findings: unknown(answered) },
    ].filter(({ findings }) => findings.length > 0);
    if (sides.length === 0) return { value: false };
    return { value: true, rationale: sides.map(({ side, findings }) => describe(side, findings)).join('; ') };
  },
};

const textsOf = (found: { texts: string[] } | { notJudgeable: string }): string[] | undefined =>
  'texts' in found ? found.texts : undefined;
