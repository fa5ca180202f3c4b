/** Captures that are not taken apart, or not as they announce themselves: each is kept, with a note. */
import { gzipSync } from 'node:zlib';
import { decodeLine } from '../../../lambda/capture/decode.ts';
import type { Capture, DecodeOptions } from '../../../lambda/capture/types.ts';
import { captureOf, jsonSide, lineOf, rawLine, sideOf } from './arbitraries.ts';

function decoded(record: object, options: DecodeOptions = {}): Capture {
  const line = decodeLine(lineOf(record), options);
  if (line.kind !== 'capture') throw new Error(line.reason.message);
  return line.capture;
}

test.each([{}, 5, 'x', [null], [{ function: { name: 17 } }]])(
  'tool calls of a request as %j are a list or none',
  (calls) => {
    const message = { role: 'user', content: 'hi', tool_calls: calls };
    const { conversation } = decoded(captureOf(jsonSide('INPUT', { messages: [message] }, 'plain'), undefined));
    expect(conversation?.messages).toMatchObject([{ role: 'user', content: 'hi' }]);
    for (const call of conversation?.messages[0]?.tool_calls ?? []) {
      expect(call).toMatchObject({ type: 'function', function: { name: '', arguments: expect.any(String) } });
    }
  },
);

test('tool calls of a generation are in the form of all others', () => {
  const calls = [null, { function: { name: 'look', arguments: { at: 1 } } }];
  const reply = [{ generated_text: 'x', tool_calls: calls }];
  const { conversation } = decoded(captureOf(undefined, jsonSide('OUTPUT', reply, 'plain')));
  expect(conversation?.replies[0]?.tool_calls).toEqual([
    { type: 'function', function: { name: '', arguments: '{}' } },
    { type: 'function', function: { name: 'look', arguments: '{"at":1}' } },
  ]);
});

test('what takes too long is kept as captured', () => {
  const table = { instances: Array.from({ length: 100_000 }, (_, row) => [row]) };
  const record = captureOf(jsonSide('INPUT', table, 'plain'), undefined);
  const capture = decoded(record, { timeMs: 1 });
  expect(capture.request).toMatchObject({ kind: 'raw', text: JSON.stringify(table) });
  expect(capture.notes).toEqual([expect.stringContaining('OutOfTime: it took longer than 0.001 s')]);
});

const MB = 1_000_000;
const packed = (body: string, contentType: string): object => ({
  observedContentType: contentType,
  mode: 'INPUT',
  data: gzipSync(body).toString('base64'),
  encoding: 'BASE64',
});

test.each<[string, object]>([
  ['lists', jsonSide('INPUT', Array(30_000).fill([]), 'plain')],
  ['objects in JSON lines', sideOf('INPUT', '{}\n'.repeat(30_000), 'application/jsonlines', 'base64')],
  ['rows of CSV', sideOf('INPUT', '1\n'.repeat(30_000), 'text/csv', 'plain')],
  ['a stream of events', sideOf('INPUT', 'data:a\n\n'.repeat(30_000), 'text/event-stream', 'plain')],
  ['a body of gzip', packed(' '.repeat(2 * MB), 'text/plain')],
  ['lists in a body of gzip', packed(`[${'[],'.repeat(100_000)}1]`, 'application/json')],
])('%s that become more than they may are kept as captured', (_, side) => {
  const record = { captureData: { endpointInput: side } };
  const line = decodeLine(lineOf(record), { maxWeight: 5 * MB });
  expect(line).toMatchObject({ kind: 'capture', tooHeavy: true, capture: { request: { kind: 'raw' } } });
  const { data } = side as { data: string };
  expect(line.kind === 'capture' && line.capture.request?.text).toBe(data);
  const whole = decodeLine(lineOf(record), { maxWeight: 1000 * MB });
  expect(whole.kind === 'capture' && whole.capture.request?.kind).not.toBe('raw');
  expect(whole).toMatchObject({ weight: expect.any(Number) });
  expect(whole.kind === 'capture' && whole.weight).toBeGreaterThan(5 * MB);
});

test('a record that becomes more than it may is told so before its values are made', () => {
  const line = rawLine(Buffer.from(`{"captureData":{},"more":[${'[],'.repeat(30_000)}1]}`));
  expect(decodeLine(line, { maxWeight: 5 * MB })).toMatchObject({ kind: 'quarantine', tooHeavy: true });
  expect(decodeLine(line, { maxWeight: 1000 * MB }).kind).toBe('capture');
});
