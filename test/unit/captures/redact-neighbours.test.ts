/** What stands beside an item, or how it is written, changes neither that it is masked nor its pseudonym. */

import { buildTrace } from '../../../src/captures/trace/build.ts';
import type { Capture, DecodeOptions } from '../../../src/captures/types.ts';
import type { Redaction } from '../../../src/core/settings/redact-setting.ts';
import { piiDetected } from '../../../src/judge/scorers/code/pii.ts';
import { captureOf, decodedOf, jsonRecord, jsonSide, lineOf, redactionBy, sideOf } from './arbitraries.ts';
import TABLE from './redact-words.json' with { type: 'json' };

const KINDS = 'email,phone,card,iban,ssn,ip,mac,api_key,date_of_birth';
function decoded(record: object, rules = KINDS, more: Partial<Redaction> = {}, options: DecodeOptions = {}): Capture {
  return decodedOf(lineOf(record), { ...options, redaction: redactionBy(rules, more) });
}
const json = (request: unknown, reply: unknown = { ok: 1 }): object => jsonRecord(request, reply);
const requestOf = (request: unknown, rules?: string, more?: Partial<Redaction>): unknown =>
  decoded(json(request), rules, more).request?.value;
const pseudonymIn = (text: string): string | undefined =>
  /<\w+:[0-9a-f]{12}>/.exec((requestOf({ text }) as { text: string }).text)?.[0];

test.each(TABLE.neighbours)('%s is masked in %s', (item, text) => {
  expect(JSON.stringify(requestOf({ text }))).not.toContain(item);
});

test.each(TABLE.notations)('%s has the same pseudonym in other notations', (text, ...others) => {
  expect(pseudonymIn(text)).toBeDefined();
  expect(others.map(pseudonymIn)).toEqual(others.map(() => pseudonymIn(text)));
});

test('two addresses that a letter joins are two', () => {
  const { text } = requestOf({ text: 'jane@x.com或bob@x.com' }) as { text: string };
  expect(text).toBe(`${pseudonymIn('jane@x.com')}${pseudonymIn('bob@x.com')}`);
});

test('what is allowed stays in every notation', () => {
  const text = '联系help@x.com, +1 212 555 0123 or (212) 555-0123, 3C-DE-A5-1D-EF-59';
  const allow = ['help@x.com', '+1 212 555 0123', '3c:de:a5:1d:ef:59'];
  expect(requestOf({ text }, KINDS, { allow })).toEqual({ text });
});

test('texts of a list are no pieces of one another where one has an item of its own', () => {
  const [jane, bob] = ['jane@x.com', 'bob@y.org'].map(pseudonymIn);
  expect(requestOf({ inputs: ['mail jane@x.com', 'bob is at bob@y.org', 'no mail'] })).toEqual({
    inputs: [`mail ${jane}`, `bob is at ${bob}`, 'no mail'],
  });
  const messages = ['jane@x.com', 'or bob@y.org', 'or so'].map((content) => ({ role: 'user', content }));
  const chat = decoded(json({ messages }, { choices: [{ message: { role: 'assistant', content: 'ok' } }] }));
  expect(chat.conversation?.messages.map(({ content }) => content)).toEqual([`${jane}`, `or ${bob}`, 'or so']);
  expect(piiDetected.score(chat)).toMatchObject({
    rationale: 'request: 2 e-mail addresses (***@***.com, ***@***.org)',
  });
  const row = sideOf('INPUT', '1,Jane Doe,jane@x.com,bob@y.org,so\n', 'text/csv', 'plain');
  const { request } = decoded(captureOf(row, jsonSide('OUTPUT', {}, 'plain')));
  expect(request?.text).toBe(`1,Jane Doe,${jane},${bob},so`);
  // JSON in such a text is read, and so are the pieces in JSON.
  const lines = ['{"phone":"030 9018201","mail":"jane@x.com"}', '{"parts":["jane.","doe@exa","mple.com"]}'];
  expect(JSON.stringify(requestOf({ lines }))).not.toMatch(/9018201|jane|doe@/);
});

test.each([
  ['parts of a message', (parts: object[]) => json({ messages: [{ role: 'user', content: parts }] })],
  ['a reply in parts', (content: object[]) => json({}, { role: 'assistant', type: 'message', content })],
])('an item that is cut into %s is masked, and has the verdict that it had', (_, made) => {
  const cuts = ['Hi jane@exa', 'mple.com. Bye', 'jane@exa', 'm', 'ple.com or so'];
  const record = made(cuts.map((text) => ({ type: 'text', text })));
  const masked = decoded(record);
  expect(JSON.stringify([masked.request, masked.response])).not.toMatch(/jane|mple/);
  expect(piiDetected.score(decodedOf(lineOf(record)))).toEqual(piiDetected.score(masked));
});

test('names of entries announce their values, and a number that a tool is given is masked', () => {
  const entries = [
    { name: 'phone', datatype: 'BYTES', shape: [1], data: ['030 9018201'] },
    { key: 'dob', value: '12.03.1985' },
  ];
  expect(JSON.stringify(requestOf({ inputs: entries }))).not.toMatch(/9018201|1985/);
  const content = [{ type: 'tool_use', id: 't', name: 'pay', input: { card: 4111111111111111 } }];
  const { response } = decoded(json({ messages: [] }, { type: 'message', role: 'assistant', content }));
  expect(response?.text).toMatch(/"input":\{"card":"<card:[0-9a-f]{12}>"\}/);
});

test('items in names within a field, in types of bytes and in notes that are cut off are masked', () => {
  const request = json({ customer: { 'jane@x.com': 1 } });
  expect(JSON.stringify(requestOf({ customer: { 'jane@x.com': 1 } }, 'email,field:customer'))).not.toContain('jane');
  const image = sideOf('INPUT', '\u0000\u0001', 'image/png; name=jane@x.com', 'base64');
  const captured = captureOf(image, jsonSide('OUTPUT', {}, 'plain'));
  expect(JSON.stringify(decoded(captured))).not.toContain('jane@');
  const cut = decoded({ ...request, eventVersion: `${'x'.repeat(30)} jane.doe@example.com` });
  expect(cut.notes.join()).not.toContain('jane');
});

test('with CONTENT=none a trace has neither the model nor the run that a caller names', () => {
  const record = json({ model: 'xylotheque', messages: [{ role: 'user', content: 'Hi' }] });
  Object.assign((record as { eventMetadata: object }).eventMetadata, { customAttributes: ['replay_run=jane@x.com'] });
  const trace = buildTrace(decoded(record, KINDS, { content: 'none' }), lineOf(record), {
    experimentId: '1',
    endpointName: 'e',
  });
  expect(JSON.stringify(trace)).not.toMatch(/xylotheque|jane/);
});

const LINEAR = 2.5;
const TRIES = 3;

/** Returns by how much the time of each value grows if there are four times as many, at best: a machine may be busy. */
function growthOf(count: number, make: (count: number) => unknown): number {
  const timeOf = (values: number): number => {
    const line = lineOf(json(make(values)));
    const started = process.cpuUsage();
    piiDetected.score(decodedOf(line, { redaction: redactionBy(KINDS), timeMs: 600_000 }));
    return process.cpuUsage(started).user / values;
  };
  timeOf(count);
  let growth = Infinity;
  for (let n = 0; n < TRIES && growth >= LINEAR; n += 1) growth = Math.min(growth, timeOf(4 * count) / timeOf(count));
  return growth;
}

const manyOf = <T>(count: number, one: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => one(at));

/** An address in one of 2^17 notations. */
const addressOf = (at: number): string =>
  `${[...at.toString(2).padStart(17, '0')].map((bit) => (bit === '0' ? 'a' : 'A')).join('')}@example.com`;

test.each<[string, number, (count: number) => unknown]>([
  ['names of equal pseudonyms', 4_000, (count) => Object.fromEntries(manyOf(count, (at) => [addressOf(at), 1]))],
  [
    'texts of equal length',
    10_000,
    (count) => ({
      messages: manyOf(count, (at) => ({ role: 'system', content: 'x'.repeat(200) + String(at).padStart(9, '0') })),
    }),
  ],
  [
    'values below as many names',
    40_000,
    (count) => {
      let value: unknown = manyOf(count, () => ({ a: 'x y' }));
      for (let at = 0; at < count / 1000; at += 1) value = { [`n${'a'.repeat(98)}`]: value };
      return value;
    },
  ],
])('the time for many %s is linear', (_, count, make) => {
  expect(growthOf(count, make)).toBeLessThan(LINEAR);
});

test('the prompt of a masked request is not in the reply token by token', () => {
  const tokens = ['mail', ' jane.', 'doe@exam', 'ple.com'].map((decoded_token, at) => ({ [at]: { decoded_token } }));
  const reply = { choices: [{ index: 0, text: 'ok', prompt_logprobs: [null, ...tokens] }] };
  const capture = decoded(json({ prompt: 'mail jane.doe@example.com' }, reply));
  expect(JSON.stringify(capture.response?.value)).not.toContain('doe@exam');
  expect(JSON.stringify(decoded(json({ prompt: 'mail' }, reply)).response?.value)).toContain('doe@exam');
});

test('an item in the tokens of a reply is masked, though one of them looks like an item itself', () => {
  const content = [' 2001:', 'db8:1', '3a', '::5d1', ' is'].map((token) => ({ token, logprob: -1, bytes: [1] }));
  const reply = { choices: [{ message: { role: 'assistant', content: 'ok' }, logprobs: { content } }] };
  expect(decoded(json({ messages: [] }, reply)).response?.text).not.toMatch(/2001|db8|3a|5d1/);
});

test.each([
  ['aa:bb:cc:dd:ee:ff', 'device aa:bb:cc:dd:ee:ff'],
  ['aa-bb-cc-dd-ee-ff', 'device aa-bb-cc-dd-ee-ff'],
  ['aabb.ccdd.eeff', 'device aabb.ccdd.eeff'],
  ['aabbccddeeff', 'mac aabbccddeeff'],
  ['abc', 'curl -u admin:abc https://x'],
  ['S3cretPw', 'mysql -h db -uroot -pS3cretPw x'],
  ['swordfish', 'DB_PASSWORD=swordfish'],
  ['1.12.80', '1.12.80 geboren'],
  ['(030) 2442-7971', 'call (030) 2442-7971'],
  ['0172 4092777', 'Tel. 0171 4092776, 0172 4092777'],
  ['AKIAIOSFODNN7EXAMPLE', 'AKIAIOSFODNN7EXAMPLE'],
  ['February 20, 1994', 'born on February 20, 1994'],
])('%s is masked between escapes, and letters of scripts without spaces', (item, sentence) => {
  for (const [before, after] of [
    ['', ''],
    ['x\\n', '\\ny'],
    ['日本語', '日本語'],
    ['– ', ' – '],
    ['"', '"'],
  ]) {
    const text = `${before}${sentence}${after}`;
    expect([text, decoded(json({ text })).request?.text?.includes(item)]).toEqual([text, false]);
  }
});
