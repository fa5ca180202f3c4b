/** Reading single values: times, numbers in table cells, titles of error pages, and custom attributes. */
import { errorReply } from '../../../src/captures/errors/error-reply.ts';
import { field, parseJson } from '../../../src/captures/json.ts';
import { asksWithText } from '../../../src/captures/meaning/embedding.ts';
import { decodeText } from '../../../src/captures/payload/charset.ts';
import { cellOf } from '../../../src/captures/payload/csv.ts';
import { identityOf } from '../../../src/captures/record/identity.ts';
import { parseInferenceTime } from '../../../src/captures/record/inference-time.ts';
import type { Payload } from '../../../src/captures/types.ts';
import { StreamedBlocks } from '../../../src/captures/wire/content-blocks.ts';
import { chatMessages, promptsOf } from '../../../src/captures/wire/messages.ts';
import { payload } from '../../helpers/captures.ts';

describe('a captured time', () => {
  test.each([
    ['2026-11-20T10:00:01Z', '2026-11-20T10:00:01.000Z'],
    [' 2026-11-20 10:00:01.5 UTC\n', '2026-11-20T10:00:01.500Z'],
    ['2026-11-20T10:00+0530', '2026-11-20T04:30:00.000Z'],
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
    ['2026-11-20T10:00:01+14:00', '2026-11-19T20:00:01.000Z'],
    [' 1763632801.5 ', '2025-11-20T10:00:01.500Z'],
  ])('%j is %s', (captured, expected) => {
    expect(new Date(parseInferenceTime(captured) ?? 0).toISOString()).toBe(expected);
  });

  test.each([
    '2026-99-99T99:99:60Z',
    '2026-13-01T00:00:00Z',
    '2026-02-30T00:00:00Z',
    '2026-11-20T24:00:00Z',
    '2026-11-20T10:60:00Z',
    '2026-11-20T10:00:61Z',
    '2026-11-20T10:00:01+99:99',
    '2026-11-20T10:00:01+05:60',
    `2026-11-20T10:00${' '.repeat(300_000)}x`,
  ])('%.60j is not a time', (captured) => expect(parseInferenceTime(captured)).toBeUndefined());
});

describe('a cell is a number only when a double represents it exactly', () => {
  test.each([
    ['1.50', 1.5],
    ['1e3', 1000],
    ['0.1', 0.1],
    ['9007199254740991', 9007199254740991],
    ['-0.5', -0.5],
    [' 2.5\t', 2.5],
    ['0.10000000000000001', 0.1],
    ['1.2345678901234567e-05', Number('1.2345678901234567e-5')],
  ])('%s is read as %j', (text, value) => expect(cellOf(text)).toBe(value));

  test.each(['9007199254740993.0', '1234567890123456.7', '-0', '-0.0', '007', '12345678901234567890', '1e400'])(
    '%s stays text in a table',
    (text) => expect(cellOf(text)).toBe(text),
  );

  test.each(['9007199254740993.0', '-0', '-0.0', '-0e5', '1e400'])('%s is written out unchanged', (number) => {
    const parsed = parseJson(`{"a":[${number},1]}`);
    expect(parsed).toMatchObject({ ok: true, notes: [expect.stringContaining('1 number')] });
    expect(JSON.stringify(parsed.ok && parsed.value)).toBe(`{"a":[${number},1]}`);
  });

  test('a negative number that begins with zero is an ordinary number', () => {
    expect(parseJson('[-0.5, -10, 0, -1e-05]')).toMatchObject({ ok: true, notes: [] });
  });
});

describe('JSON', () => {
  test('that is broken in spite of its NaN is reported as broken, and not as too deep', () => {
    expect(parseJson('[NaN,')).toMatchObject({ ok: false, tooDeep: false });
  });

  test('has fields whose names differ in case', () => {
    expect(field({ Message: 'away' }, 'message')).toBe('away');
    expect(field({ Message: 'away' }, 'code')).toBeUndefined();
  });
});

test('a byte order mark tells the order of the bytes', () => {
  for (const [mark, character] of [
    [Buffer.from([0xfe, 0xff]), Buffer.from([0x00, 0xe9])],
    [Buffer.from([0xff, 0xfe]), Buffer.from([0xe9, 0x00])],
  ] as const) {
    expect(decodeText(Buffer.concat([mark, character]), undefined, true)).toEqual({ text: 'é' });
  }
  expect(decodeText(Buffer.from('é', 'latin1'), 'no-such-charset', true)).toMatchObject({ text: 'é' });
});

test('a list asks for an embedding if it has texts', () => {
  expect([['a', 'b'], [], ['a', 1]].map(asksWithText)).toEqual([true, false, false]);
});

describe('an error reply', () => {
  const errorOf = (value: unknown) => errorReply(payload(value));

  test.each([
    [{ errors: [{ code: 7 }, { message: 'too long' }, { message: 'too late' }] }, undefined, 'too long; too late'],
    [{ message: 'prediction failure', error: 'out of memory' }, undefined, 'prediction failure: out of memory'],
    [{ code: 507, message: 'full', error: { at: 'disk' } }, 507, 'full'],
    [{ error_type: 'overloaded', error: 'busy' }, 429, 'busy'],
    [{ error: 'ClientError', 'error-message': 'bad row', 'stack-trace': 'Traceback' }, undefined, 'bad row'],
  ])('%j has status %p and says `%s`', (value, statusCode, message) => {
    expect(errorOf(value)).toMatchObject({ message });
    expect(errorOf(value)?.statusCode).toBe(statusCode);
  });
});

describe('the title of an error page', () => {
  const errorOf = (page: string) => errorReply(payload(page, { contentType: 'text/html', encoding: 'CSV' }));

  test.each([
    '<html><head><title>502 Bad Gateway</title></head></html>',
    '<!DOCTYPE html>\n<HTML lang="en"><head><meta charset="utf-8"><TITLE> 502 Bad Gateway\n</TITLE>',
    '<title>502 Bad Gateway</title>',
  ])('is found in %s', (page) => expect(errorOf(page)).toMatchObject({ statusCode: 502, message: '502 Bad Gateway' }));

  test.each([
    'A page begins with <title>502 Bad Gateway</title>.',
    `<title>502 Bad${' '.repeat(300_000)}<`,
    `<title>${'502 Bad Gateway '.repeat(9)}</title>`,
    '<title>502 Bad Gateway',
  ])('is not found in %.60s', (page) => expect(errorOf(page)).toBeUndefined());
});

test('custom attributes are read in linear time', () => {
  const value = `${'\t'.repeat(200_000)}x`;
  const record = { customAttributes: `a=1; user_id = u=7 ,${' '.repeat(200_000)},b=-=${value}` };
  const b = expect.stringMatching(/^-=/);
  expect(identityOf(record, {}, undefined).attributes).toEqual({ a: '1', user_id: 'u=7', b });
});

test('custom attributes without a name are kept under the name of the header', () => {
  const attributesOf = (customAttributes: string) => identityOf({ customAttributes }, {}, undefined).attributes;
  expect(attributesOf(' blue team ')).toEqual({ custom_attributes: 'blue team' });
  expect(attributesOf(' ')).toEqual({});
});

test('the session is that of the request, or else that of the record’s metadata', () => {
  expect(identityOf({}, { sessionId: 'm' }, {}).sessionId).toBe('m');
  expect(identityOf({}, { SessionId: 'M' }, {}).sessionId).toBe('M');
  expect(identityOf({}, { sessionId: 'm' }, { session_id: 'r' }).sessionId).toBe('r');
});

test('an empty list, or one of other values, is no list of prompts', () => {
  const prompts = [['a', 'b'], 'a', [[1, 2]], [], [{}]].map(promptsOf);
  expect(prompts).toEqual([['a', 'b'], ['a'], ['[2 token ids]'], undefined, undefined]);
});

test('the status of a vendor’s error is the body’s, else that of its type, else that of its words', () => {
  const told = (value: object) =>
    errorReply({ kind: 'json', contentType: 'application/json', value } as unknown as Payload);
  const generation = { generated_text: 'a', details: { finish_reason: 'error', error: 'm' } };
  expect(told({ throttlingException: { message: 'm' } })).toMatchObject({ statusCode: 429, message: 'm' });
  expect(told({ ...generation, status_code: 503 })).toMatchObject({ statusCode: 503, message: 'm' });
  expect(told({ ...generation, details: { finish_reason: 'error', error: 'Service Unavailable' } })).toMatchObject({
    statusCode: 503,
  });
});

test('the content of a message may be missing, or a single block', () => {
  expect(chatMessages({ role: 'user', value: null }, 'user')).toEqual([{ role: 'user', content: '' }]);
  expect(chatMessages({ role: 'user', parts: { type: 'text', text: 'a' } }, 'user')).toEqual([
    { role: 'user', content: 'a' },
  ]);
});

test('a tool’s input that was not streamed is missing, not empty', () => {
  const blocks = new StreamedBlocks();
  blocks.begin(0, { type: 'tool_use' });
  const inputs: unknown[] = [];
  blocks.inOrder((_, input) => inputs.push(input));
  expect(inputs).toEqual([undefined]);
});
