/** What is an identifier by its form, its check digits and the words before it, and what is none. The tables are in `ids.json`. */

import { Forms, find } from '../../../src/captures/redact/find.ts';
import { wordsOfName } from '../../../src/captures/redact/words.ts';
import { REDACT_KINDS } from '../../../src/core/settings/redact-setting.ts';
import { seeded } from '../../helpers/planted.ts';
import TABLE from './redact-ids.json' with { type: 'json' };

const FORMS = new Forms(['national_id']);
const idsIn = (text: string, field = '', forms = FORMS): string[] =>
  find(text, forms, field === '' ? [] : wordsOfName(field)).map(({ start, end }) => text.slice(start, end));

test.each(TABLE.ids as [string, string][])('%s is an identifier in %s', (item, text) => {
  expect(idsIn(text)).toContain(item);
});

test.each(TABLE.harmless)('%s has no identifier', (text) => {
  expect(idsIn(text)).toEqual([]);
});

test.each(TABLE.fields as [string, string][])('the name of the field %s announces %s', (field, value) => {
  expect(idsIn(value, field, new Forms(REDACT_KINDS))).toEqual([value]);
});

test.each(TABLE.harmlessFields as [string, string][])('the field %s with %s has no identifier', (field, value) => {
  expect(idsIn(value, field)).toEqual([]);
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
