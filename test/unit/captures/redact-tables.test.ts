/**
 * What the tables of identifiers, secrets and words say is an item, and what only looks like one. Identifiers have check digits; words
 * announce items in sentences and names of fields, in many languages.
 */
import { Forms, find } from '../../../src/captures/redact/find.ts';
import ISSUERS from '../../../src/captures/redact/issuers.json' with { type: 'json' };
import { Masker } from '../../../src/captures/redact/mask.ts';
import { wordsOfName } from '../../../src/captures/redact/words.ts';
import { REDACT_KINDS, redactRules } from '../../../src/core/settings/redact-setting.ts';
import { seeded } from '../../helpers/planted.ts';
import IDS from './redact-ids.json' with { type: 'json' };
import SECRETS from './redact-secrets.json' with { type: 'json' };
import WORDS from './redact-words.json' with { type: 'json' };

const itemsOf =
  (forms: Forms) =>
  (text: string, field = ''): string[] =>
    find(text, forms, field === '' ? [] : wordsOfName(field)).map(({ start, end }) => text.slice(start, end));
const idsIn = itemsOf(new Forms(['national_id']));
const secretsIn = itemsOf(new Forms(['jwt', 'url_credentials', 'api_key']));
const anyIn = itemsOf(new Forms(REDACT_KINDS));

test.each(IDS.ids as [string, string][])('%s is an identifier in %s', (item, text) => {
  expect(idsIn(text)).toContain(item);
});

test.each(SECRETS.secrets as [string, string][])('%s is a secret in %s', (item, text) => {
  expect(secretsIn(text).some((found) => found.includes(item))).toBe(true);
});

test.each([
  ...IDS.fields.map((row) => [...row, anyIn] as const),
  ...SECRETS.fields.map((row) => [...row, secretsIn] as const),
] as [string, string, typeof anyIn][])('the name of the field %s announces %s', (field, value, itemsIn) => {
  expect(itemsIn(value, field)).toEqual([value]);
});

test.each([
  ...IDS.harmless.map((text) => [text, '', idsIn] as const),
  ...IDS.harmlessFields.map(([field, value]) => [value, field, idsIn] as const),
  ...SECRETS.harmless.map((text) => [text, '', secretsIn] as const),
  ...SECRETS.harmlessFields.map(([field, value]) => [value, field, secretsIn] as const),
] as [string, string, typeof anyIn][])('nothing is an item in %s (field: %s)', (text, field, itemsIn) => {
  expect(itemsIn(text, field)).toEqual([]);
});

test.each([
  ['12345678Z', '12345678A'],
  ['X1234567L', 'X1234567A'],
  ['529.982.247-25', '529.982.247-26'],
  ['756.9217.0769.85', '756.9217.0769.84'],
  ['RSSMRA85T10A562S', 'RSSMRA85T10A562T'],
  ['811228-9874', '811228-9875'],
  ['710319/2745', '710319/2746'],
  ['131052-308T', '131052-308U'],
  ['S1234567D', 'S1234567A'],
  ['85.07.30-033.28', '85.07.30-033.29'],
  ['20-05536168-2', '20-05536168-3'],
  ['2341 2341 2346', '2341 2341 2347'],
])('%s counts without a word, and %s, with a wrong check digit, does not', (right, wrong) => {
  expect(idsIn(`It is ${right}, as I said.`)).toEqual([right]);
  expect(idsIn(`It is ${wrong}, as I said.`)).toEqual([]);
});

test.each(['BSN 111222339', 'PESEL: 44051401357', 'NHS number 943 476 5911'])('%s has no right check digit', (text) => {
  expect(idsIn(text)).toEqual([]);
});

test('at most one in 1,000 digit strings, Unix times and dates counts without a word', () => {
  const random = seeded(5);
  const below = (most: number): number => Math.floor(random() * most);
  const kinds = [
    ...Array.from({ length: 8 }, () => () => Array.from({ length: 8 + below(8) }, () => below(10)).join('')),
    () => String(below(2) === 0 ? 1e9 + below(1e9) : 1e12 + below(1e12)),
    () =>
      new Date(below(2e9) * 1000)
        .toISOString()
        .replace(/\D/g, '')
        .slice(0, below(2) === 0 ? 8 : 14),
  ];
  const texts = Array.from({ length: 100_000 }, (_, at) => (kinds[at % kinds.length] as () => string)());
  const found = texts.filter((text) => idsIn(`the value is ${text}.`).length > 0);
  expect(found.length).toBeLessThanOrEqual(100);
  expect(found.length).toBeGreaterThan(0);
});

/** Signs of an alphabet such as `A-Za-z0-9`, with a digit among the first ones. */
function keyOf({ prefix, alphabet = '', length = '' }: { prefix: string; alphabet?: string; length?: string }): string {
  const signs = Array.from({ length: 128 }, (_, code) => String.fromCharCode(code));
  const allowed = signs.filter((sign) => new RegExp(`[${alphabet}]`).test(sign) && /[a-z0-9]/i.test(sign));
  return (
    prefix +
    Array.from({ length: Number.parseInt(length, 10) }, (_, at) => allowed[(at * 7 + 3) % allowed.length]).join('')
  );
}

test('the key of each issuer is found without a word before it, and at least 100 issuers are listed', () => {
  const keys = ISSUERS.filter((one) => 'alphabet' in one).map(keyOf);
  expect(keys.filter((key) => !secretsIn(`Use ${key} for it.`).includes(key))).toEqual([]);
  expect(new Set(ISSUERS.map(({ issuer }) => issuer)).size).toBeGreaterThan(100);
  expect(ISSUERS.every(({ source }) => source !== '')).toBe(true);
});

test('a private key is masked whole, with its last line or without', () => {
  const body = Array.from({ length: 20 }, (_, at) => `MIIEpAIBAAKCAQEA${at}b7Cd`.padEnd(64, 'xY3'));
  const kinds = ['RSA', 'EC', 'OPENSSH', 'ENCRYPTED'].map((of) => `${of} PRIVATE KEY`);
  for (const kind of [...kinds, 'PGP PRIVATE KEY BLOCK']) {
    for (const end of ['\n', '\\n', '\r\n']) {
      const lines = [`-----BEGIN ${kind}-----`, ...body];
      const whole = [...lines, `-----END ${kind}-----`].join(end);
      expect(secretsIn(`key: ${whole} and so on`)).toEqual([whole]);
      const cut = lines.join(end);
      expect(secretsIn(`${cut}${end}${end}Here is the answer.`).join()).toContain(body.at(-1));
    }
  }
  expect(secretsIn('A file begins with -----BEGIN PRIVATE KEY----- and ends with a line.')).toEqual([]);
});

const masked = (value: unknown, kinds: string): unknown =>
  new Masker({ ...redactRules(kinds), allow: [], content: 'all' }).value(value, true);

/** Of the table, each item is between angle brackets. */
const marked = (text: string, kind: string): string => text.replaceAll(/<(?=[\d(])[^>]*>/g, `<${kind}>`);
const bare = (text: string): string => text.replaceAll(/<(?=[\d(])([^>]*)>/g, '$1');

test.each([
  ...WORDS.phone.map((text) => ['phone', text] as const),
  ...WORDS.date_of_birth.map((text) => ['date_of_birth', text] as const),
])('%s: %s', (kind, text) => {
  expect(masked(bare(text), kind)).toBe(marked(text, kind));
});

test.each([
  ['phone', '030 9018201'],
  ['date_of_birth', '1985-03-12'],
] as const)('names of fields announce a %s', (kind, value) => {
  const names = WORDS.fields[kind];
  const fields = Object.fromEntries(names.map((name) => [name, value]));
  expect(masked(structuredClone(fields), kind)).toEqual(Object.fromEntries(names.map((name) => [name, `<${kind}>`])));
});

test('a number of a field is masked, and so is each of a list', () => {
  const value = { mobil: 1712345678, phones: ['030 9018201', '040 123456'], contact: 'Ann, 030 9018201' };
  expect(masked(value, 'phone')).toEqual({ mobil: '<phone>', phones: ['<phone>', '<phone>'], contact: 'Ann, <phone>' });
});

test.each(WORDS.amongData as [string, string][])('%s: %s', (kind, written) => {
  expect(masked(written.replace(/[‹›]/g, ''), kind)).toBe(written.replace(/‹[^›]*›/g, `<${kind}>`));
});

test.each(WORDS.harmless)('%s stays', (text) => {
  expect(masked(text, 'email,phone,card,iban,ssn,ip,mac,crypto_wallet,date_of_birth')).toBe(text);
});
