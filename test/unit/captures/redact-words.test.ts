/** One table of words announces items in sentences and names of fields, in many languages. Beside data an item is one; code and versions are none. */

import { Masker } from '../../../src/captures/redact/mask.ts';
import { redactRules } from '../../../src/core/settings/redact-setting.ts';
import TABLE from './redact-words.json' with { type: 'json' };

const masked = (value: unknown, kinds: string): unknown =>
  new Masker({ ...redactRules(kinds), allow: [], content: 'all' }).value(value, true);

/** Of the table, each item is between angle brackets. */
const marked = (text: string, kind: string): string => text.replaceAll(/<(?=[\d(])[^>]*>/g, `<${kind}>`);
const bare = (text: string): string => text.replaceAll(/<(?=[\d(])([^>]*)>/g, '$1');

test.each([
  ...TABLE.phone.map((text) => ['phone', text] as const),
  ...TABLE.date_of_birth.map((text) => ['date_of_birth', text] as const),
])('%s: %s', (kind, text) => {
  expect(masked(bare(text), kind)).toBe(marked(text, kind));
});

test.each([
  ['phone', '030 9018201'],
  ['date_of_birth', '1985-03-12'],
] as const)('names of fields announce a %s', (kind, value) => {
  const names = TABLE.fields[kind];
  const fields = Object.fromEntries(names.map((name) => [name, value]));
  expect(masked(structuredClone(fields), kind)).toEqual(Object.fromEntries(names.map((name) => [name, `<${kind}>`])));
});

test('a number of a field is masked, and so is each of a list', () => {
  const value = { mobil: 1712345678, phones: ['030 9018201', '040 123456'], contact: 'Ann, 030 9018201' };
  expect(masked(value, 'phone')).toEqual({ mobil: '<phone>', phones: ['<phone>', '<phone>'], contact: 'Ann, <phone>' });
});

test.each(TABLE.amongData as [string, string][])('%s: %s', (kind, written) => {
  expect(masked(written.replace(/[‹›]/g, ''), kind)).toBe(written.replace(/‹[^›]*›/g, `<${kind}>`));
});

test.each(TABLE.harmless)('%s stays', (text) => {
  expect(masked(text, 'email,phone,card,iban,ssn,ip,mac,crypto_wallet,date_of_birth')).toBe(text);
});
