/** What makes a value a secret, and what only looks like one. The tables are in `secrets.json`. */

import { Forms, find } from '../../../src/captures/redact/find.ts';
import ISSUERS from '../../../src/captures/redact/issuers.json' with { type: 'json' };
import { wordsOfName } from '../../../src/captures/redact/words.ts';
import TABLE from './redact-secrets.json' with { type: 'json' };

const FORMS = new Forms(['jwt', 'url_credentials', 'api_key']);
const itemsIn = (text: string, field = ''): string[] =>
  find(text, FORMS, field === '' ? [] : wordsOfName(field)).map(({ start, end }) => text.slice(start, end));

test.each(TABLE.secrets as [string, string][])('%s is a secret in %s', (item, text) => {
  expect(itemsIn(text).some((found) => found.includes(item))).toBe(true);
});

test.each(TABLE.harmless)('nothing is a secret in %s', (text) => {
  expect(itemsIn(text)).toEqual([]);
});

test.each(TABLE.fields as [string, string][])('the name of the field %s makes %s a secret', (field, value) => {
  expect(itemsIn(value, field)).toEqual([value]);
});

test.each(TABLE.harmlessFields as [string, string][])('the field %s with %s has no secret', (field, value) => {
  expect(itemsIn(value, field)).toEqual([]);
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
  expect(keys.filter((key) => !itemsIn(`Use ${key} for it.`).includes(key))).toEqual([]);
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
      expect(itemsIn(`key: ${whole} and so on`)).toEqual([whole]);
      const cut = lines.join(end);
      expect(itemsIn(`${cut}${end}${end}Here is the answer.`).join()).toContain(body.at(-1));
    }
  }
  expect(itemsIn('A file begins with -----BEGIN PRIVATE KEY----- and ends with a line.')).toEqual([]);
});

test('a secret is masked whole, however long it is', () => {
  const long = 'a1B2'.repeat(5000);
  const texts = [`token=${long}`, `"password": "${long}"`, `https://h.example/?token=${long}`];
  for (const text of [...texts, `Authorization: Bearer ${long}`]) {
    expect(itemsIn(text)).toEqual([long]);
  }
});
