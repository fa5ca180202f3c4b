/** Fields by name and by column, patterns, what callers allow, and what only looks like a pseudonym. */

import { maskedLine } from '../../../src/captures/redact.ts';
import type { Capture, DecodeOptions } from '../../../src/captures/types.ts';
import { captureOf, decodedOf, jsonRecord, jsonSide, lineOf, redactionBy, sideOf } from './arbitraries.ts';
import TABLE from './redact-words.json' with { type: 'json' };

function decoded(record: object, rules: string, more: DecodeOptions = {}): Capture {
  return decodedOf(lineOf(record), { ...more, redaction: redactionBy(rules) });
}
const csv = (request: string, reply = '0.1\n'): object =>
  captureOf(sideOf('INPUT', request, 'text/csv', 'plain'), sideOf('OUTPUT', reply, 'text/csv', 'plain'));
const json = (request: unknown, reply: unknown = { ok: 1 }): object => jsonRecord(request, reply);

const SOME = /^<[^\\:]+:[0-9a-f]{12}>$/;

test.each([
  ['field:#2', {}, '1,Jane Doe,3\n'],
  ['field:Name', { featureNames: ['id', 'name', 'age'] }, '1,Jane Doe,3\n'],
  ['field:name', { csvHeader: true }, 'id,Name,age\n1,Jane Doe,3\n'],
  ['field:name,field:#2', { featureNames: ['id', 'name', 'age'] }, '1,Jane Doe,3\n'],
])('%s masks a column once, with options %j', (rules, options, request) => {
  const { request: masked, masked: counts } = decoded(csv(request), rules, options);
  const cell = (masked?.value as unknown[][] | undefined)?.at(-1)?.[1];
  expect(cell).toMatch(SOME);
  expect(Object.values(counts ?? {})).toEqual([1]);
});

test('a field is masked whatever it holds, and a number that is a prediction only by a field', () => {
  const body = { name: 'Jane', list: [{ NAME: ['a', 2, true, null] }], other: 'Jane' };
  const { request, response } = decoded(json(body, { score: 4111111111111111, name: 3 }), 'card,field:name');
  const { name, list, other } = (request as { value: unknown }).value as {
    name: string;
    list: [{ NAME: unknown[] }];
    other: string;
  };
  expect([name, ...list[0].NAME.slice(0, 3)].every((one) => SOME.test(String(one)))).toBe(true);
  expect([list[0].NAME[3], other]).toEqual([null, 'Jane']);
  expect(response?.value).toEqual({ score: 4111111111111111, name: expect.stringMatching(SOME) });
});

test('a pattern masks what it matches, and what is allowed stays', () => {
  const text = 'TCK-123456 of help@example.com, jo@example.org and jo@example.net';
  const options = {
    redaction: redactionBy('email,pattern:ticket=TCK-\\d{6}', { allow: ['help@example.com', '@example.org'] }),
  };
  const masked = /^<ticket:[0-9a-f]{12}> of help@example\.com, jo@example\.org and <email:[0-9a-f]{12}>$/;
  const { request } = decodedOf(lineOf(json({ text })), options);
  expect(request?.value).toEqual({ text: expect.stringMatching(masked) });
});

test.each(TABLE.scripts)('%s holds a %s, whatever the script', (text, kind) => {
  const { request } = decoded(json({ text }), 'email,phone,card,iban,ip,mac,date_of_birth');
  expect(request?.value).toEqual({ text: expect.stringContaining(`<${kind}:`) });
});

test('four numbers are an address, but for those of a section or a version', () => {
  const text = 'from 1.2.3.4 and 8.8.8.8, section 6.8.7.7, Version 10.0.0.1';
  const { request } = decoded(json({ text }), 'ip');
  expect(request?.value).toEqual({
    text: expect.stringMatching(/^from <ip:\w+> and <ip:\w+>, section 6\.8\.7\.7, Version 10\.0\.0\.1$/),
  });
});

test('text that looks like a pseudonym is escaped', () => {
  const { request } = decoded(json({ text: '<email:3f2a9c01d4be> and <\\email:3f2a9c01d4be>' }), 'email');
  expect(request?.value).toEqual({ text: '<\\email:3f2a9c01d4be> and <\\\\email:3f2a9c01d4be>' });
});

test('equal values have equal pseudonyms, in any form, and other ones under another key', () => {
  const of = (text: string, key = 'a key'): unknown => {
    return decodedOf(lineOf(json({ text })), { redaction: redactionBy('phone,email', { key }) }).request?.value;
  };
  expect(of('Jo@Example.com')).toEqual(of('jo@example.com'));
  expect(of('+49 30 1234567')).toEqual(of('+49-30-1234567'));
  expect(of('jo@example.com', 'other')).not.toEqual(of('jo@example.com'));
});

test('a masked line is read like the captured one', () => {
  const options = { redaction: redactionBy('email') };
  const line = maskedLine(lineOf(json({ text: 'jo@example.com' })).bytes, options)?.toString() ?? '';
  expect(line).not.toContain('jo@');
  const read = decodedOf(lineOf(JSON.parse(line)));
  const masked = decodedOf(lineOf(json({ text: 'jo@example.com' })), options);
  expect(read.request?.value).toEqual(masked.request?.value);
  expect(read.eventId).toBe(masked.eventId);
});

const LONG = 'a1B2'.repeat(5000);

test.each([
  ['api_key', `api_key=${LONG}`],
  ['api_key', `"password": "${LONG}"`],
  ['api_key', `Authorization: Bearer ${LONG}`],
  ['api_key', `sk-${LONG}`],
  ['api_key', `ya29.${LONG}`],
  ['api_key', `-----BEGIN PRIVATE KEY-----\n${`${LONG.slice(0, 64)}\n`.repeat(300)}-----END PRIVATE KEY-----`],
  ['jwt', `eyJ${LONG}.eyJ${LONG}.${LONG}`],
  ['jwt', `eyJ${LONG}.${LONG}.${LONG}.${LONG}.${LONG}`],
  ['url_credentials', `https://jane:${LONG}@example.com`],
  ['url_credentials', `https://example.com/?token=${LONG}`],
])('%s: a secret is masked whole, however long it is', (kind, text) => {
  const { request } = decoded(json({ text: `it is ${text} , ok` }), kind);
  expect(request?.text).not.toContain('a1B2');
  expect(request?.text).toContain(' , ok');
  expect(request?.text).toContain(`<${kind}`);
});

test('names of fields announce no more than their words say', () => {
  const others = {
    hotel: '12345678',
    automobile_id: '12345678',
    exception_id: '12345678',
    cancelledOrder: '12345678',
    tokenizer: 'meta-llama/Llama-3.1-8B',
    keyword: 'word12',
  };
  expect(decoded(json(others), 'phone,api_key').request?.text).toBe(JSON.stringify(others));
});

test('JSON without a finding keeps its text, unless that has more than the value; a JSON text keeps its quotes', () => {
  const textOf = (body: string): string | undefined => {
    const side = sideOf('INPUT', body, 'application/json', 'plain');
    return decoded(captureOf(side, jsonSide('OUTPUT', {}, 'plain')), 'email').request?.text;
  };
  expect(textOf('{ "a": [1.0, "b"] }')).toBe('{ "a": [1.0, "b"] }');
  expect(textOf('{ "a": "jane@example.com", "a": "b" }')).toBe('{"a":"b"}');
  expect(textOf('"Call Jane.\\n"')).toBe('"Call Jane.\\n"');
  expect(textOf('"Mail jane@example.com"')).toMatch(/^"Mail <email:[0-9a-f]{12}>"$/);
});

test('names of columns announce the values of a request, whether a header, a table or the settings have them', () => {
  const names = ['id', 'phone', 'birth_date'];
  const row = ['17', '030 9018201', '12.03.1985'];
  const table = `${row}\n`;
  const captures = [
    decoded(csv(`${names}\n${table}`), 'phone,date_of_birth', { csvHeader: true }),
    decoded(csv(table), 'phone,date_of_birth', { featureNames: names }),
    decoded(json({ dataframe_split: { columns: names, data: [row] } }), 'phone,date_of_birth'),
    decoded(json({ instances: [{ features: row }] }), 'phone,date_of_birth', { featureNames: names }),
  ];
  for (const { request, masked } of captures) {
    expect(masked).toEqual({ phone: 1, date_of_birth: 1 });
    expect(request?.text).toMatch(/17.*<phone:[0-9a-f]{12}>.*<date_of_birth:[0-9a-f]{12}>/s);
  }
  // A number of a reply is a prediction.
  const reply = { columns: ['phone'], data: [[309018201]] };
  expect(decoded(json({}, reply), 'phone').masked).toBeUndefined();
});

test('parameters of URLs that grant access have names of several languages', () => {
  for (const name of ['passwort', 'contrasena', 'senha', 'motdepasse', 'wachtwoord']) {
    const { request } = decoded(json({ url: `https://h.example/x?a=1&${name}=geheim42&b=2` }), 'url_credentials');
    expect(request?.text).toMatch(/&[a-z]+=<url_credentials:[0-9a-f]{12}>&b=2"/);
  }
  const others = { url: 'https://h.example/x?clavier=azerty1&senhas=listagem&mdpx=abcdefg' };
  expect(decoded(json(others), 'url_credentials').request?.text).toBe(JSON.stringify(others));
});

test.each([1, 2, 3])(
  'an item in tokens of %i characters is masked, with their bytes and what the model considered',
  (size) => {
    const tokens = 'Mail jane.doe@example.com now'.match(new RegExp(`.{1,${size}}`, 'g')) as string[];
    const reply = {
      content: tokens.map((token) => ({
        token,
        bytes: [...Buffer.from(token)],
        top_logprobs: [{ token, logprob: -0.1 }, { token: 'x' }],
      })),
      tokens,
      top_logprobs: tokens.map((token) => ({ [token]: -0.1, x: -2 })),
      details: {
        tokens: tokens.map((text) => ({ text })),
        top_tokens: tokens.map((text) => [{ text }, { text: 'x' }]),
      },
    };
    const { response } = decoded(json({}, reply), 'email');
    const { content, tokens: listed, details, ...rest } = (response as { value: typeof reply }).value;
    const texts = [content.map(({ token }) => token), listed, details.tokens.map(({ text }) => text)];
    for (const one of texts) expect(one.join('')).toMatch(/^Mail <email:[0-9a-f]{12}> now$/);
    expect(rest).toEqual({});
    expect(details).not.toHaveProperty('top_tokens');
    const bytes = content.flatMap((token) => token.bytes ?? []);
    expect(Buffer.from(bytes).toString()).not.toContain('doe@');
  },
);
