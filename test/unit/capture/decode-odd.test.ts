/** Captures that are not taken apart, or not as they announce themselves: each is kept, with a note. */
import { decodeLine } from '../../../lambda/capture/decode.ts';
import type { Capture, DecodeOptions } from '../../../lambda/capture/types.ts';
import { captureOf, jsonSide, lineOf } from './arbitraries.ts';

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
