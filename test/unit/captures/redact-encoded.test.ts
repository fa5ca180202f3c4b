/** Text that is encoded beside its type is masked, and written back in its encoding. */

import { redactRules } from '../../../src/core/settings/redact-setting.ts';
import { captureOf, decodedOf, lineOf, sideOf } from './arbitraries.ts';

const MAIL = 'jane@example.com';
const CARD = '4111 1111 1111 1111';
const base64 = (text: string | Buffer): string => Buffer.from(text).toString('base64');
const url = (type: string, text: string | Buffer): string => `data:${type};base64,${base64(text)}`;

/** Returns the masked text of a request. */
function masked(data: unknown, contentType = 'application/json'): string {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  const redaction = { ...redactRules('email,card,phone,field:who'), allow: [], content: undefined };
  const record = captureOf(sideOf('INPUT', text, contentType, 'plain'), undefined);
  return decodedOf(lineOf(record), { redaction }).request?.text ?? '';
}

const FORM = 'application/x-www-form-urlencoded';

test.each([
  ['a value', `a=1&email=${encodeURIComponent(MAIL)}`, 'a=1&email=%3Cemail%3E'],
  ['plus signs', `card=${CARD.replaceAll(' ', '+')}&b=+`, 'card=%3Ccard%3E&b=+'],
  ['a name that announces', 'telefon=0171+2345678', 'telefon=%3Cphone%3E'],
  ['a field', 'who=Ann&x=%41', 'who=%3Cwho%3E&x=%41'],
  ['JSON within', `p=${encodeURIComponent(`{"m":"${MAIL}"}`)}`, 'p=%7B%22m%22%3A%22%3Cemail%3E%22%7D'],
  ['a name', `${encodeURIComponent(MAIL)}=1`, '%3Cemail%3E=1'],
  ['no UTF-8', `n=M%FCller&m=1`, '<not masked>&m=1'],
  ['more than 1 MB', `m=${MAIL}&n=${'x'.repeat(2 ** 20)}`, '<not masked>'],
])('a form with %s', (_, form, expected) => {
  expect(masked(form, `${FORM}; charset=UTF-8`)).toBe(expected);
});

/** Ways to hand over a file. */
const PARTS: [string, (type: string, data: string) => object][] = [
  ['file_data', (type, data) => ({ file: { filename: 'a.x', file_data: `data:${type};base64,${data}` } })],
  ['a sentence', (type, data) => ({ inputs: `see data:${type};base64,${data} and reply` })],
  ['a source', (type, data) => ({ source: { type: 'base64', media_type: type, data } })],
  ['inlineData', (type, data) => ({ parts: [{ inlineData: { mimeType: type, data } }] })],
  ['JSON in JSON', (type, data) => ({ arguments: JSON.stringify({ url: `data:${type};base64,${data}` }) })],
];
const TEXTS = ['text/plain', 'text/html; charset=utf-8', 'application/json', 'image/svg+xml', FORM];

test.each(PARTS.flatMap(([name, part]) => TEXTS.map((type) => [name, type, part] as const)))(
  '%s of %s',
  (_, type, part) => {
    const text = type === FORM ? `m=${encodeURIComponent(MAIL)}` : `{"m":"${MAIL}"}`;
    const expected = type === FORM ? 'm=<email>' : '{"m":"<email>"}';
    expect(masked(part(type, base64(text)))).toBe(JSON.stringify(part(type, base64(expected))));
    expect(masked(part(type, base64('{}')))).toBe(JSON.stringify(part(type, base64('{}'))));
  },
);

test.each(PARTS)('%s that cannot be read is not kept, and a picture is', (_, part) => {
  for (const bytes of [Buffer.from([0xff, 0xfe, 0x41]), Buffer.from(MAIL, 'utf16le')]) {
    expect(masked(part('application/pdf', base64(bytes)))).toContain('<not masked>');
  }
  expect(masked(part('image/png', base64('png')))).toBe(JSON.stringify(part('image/png', base64('png'))));
});

test.each([
  ['no type', { url: url('', MAIL) }, url('', '<email>')],
  [
    'lines',
    { url: url('text/csv', `${'a,'.repeat(30)}${MAIL}`).replace(/(?<=^.{97})/, '\n') },
    url('text/csv', `${'a,'.repeat(30)}<email>`),
  ],
  [
    'a charset that is not UTF-8',
    { url: url('text/plain;charset=utf-16le', Buffer.from(MAIL, 'utf16le')) },
    '<not masked>',
  ],
  ['more than 1 MB', { url: url('text/plain', 'x'.repeat(2 ** 20)) }, '<not masked>'],
  ['a text that is no base64', { media_type: 'text/plain', data: `I am ${MAIL}` }, 'I am <email>'],
])('a file with %s', (_, part, expected) => {
  const text = masked(part);
  expect(text).toContain(JSON.stringify(expected).slice(1, -1));
  expect(Buffer.from(text, 'base64').toString()).not.toContain(MAIL);
  expect(text).not.toContain(base64(MAIL).slice(0, 16));
});

/** Files in messages of Bedrock's Converse, which names their form beside their bytes. */
test.each([
  ...['txt', 'md', 'csv', 'html'].map((form) => ['document', form, base64('<email>')]),
  ...['pdf', 'doc', 'docx', 'xls', 'xlsx'].map((form) => ['document', form, '<not masked>']),
  ...['png', 'jpeg', 'gif', 'webp'].map((form) => ['image', form, base64(MAIL)]),
  ...['mp4', 'mov', 'three_gp'].map((form) => ['video', form, base64(MAIL)]),
])('%s of the form %s in Converse', (kind = '', format, bytes) => {
  const file = { format, name: 'a', source: { bytes: base64(MAIL) } };
  const body = { messages: [{ role: 'user', content: [{ text: 'What is it?' }, { [kind]: file }] }] };
  const found = JSON.parse(masked(body)) as typeof body;
  expect(found.messages[0]?.content[1]).toEqual({ [kind]: { ...file, source: { bytes } } });
});
