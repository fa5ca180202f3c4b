/** Tests captures that cannot be decoded, or not as announced: each is kept, with a note. */
import { Script } from 'node:vm';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { decodeLine } from '../../../src/captures/decode.ts';
import type { Capture, DecodeOptions } from '../../../src/captures/types.ts';
import { captureOf, decodedOf, jsonRecord, jsonSide, lineOf, rawLine, type Side, sideOf } from './arbitraries.ts';

const decoded = (record: object, options?: DecodeOptions): Capture => decodedOf(lineOf(record), options);

test.each([{}, 5, 'x', [null], [{ function: { name: 17 } }]])(
  'tool calls of a request given as %j become a list, or are left out',
  (calls) => {
    const message = { role: 'user', content: 'hi', tool_calls: calls };
    const { conversation } = decoded(captureOf(jsonSide('INPUT', { messages: [message] }, 'plain'), undefined));
    expect(conversation?.messages).toMatchObject([{ role: 'user', content: 'hi' }]);
    for (const call of conversation?.messages[0]?.tool_calls ?? []) {
      expect(call).toMatchObject({ type: 'function', function: { name: '', arguments: expect.any(String) } });
    }
  },
);

test('tool calls of a generation have the form of all others', () => {
  const calls = [null, { function: { name: 'look', arguments: { at: 1 } } }];
  const reply = [{ generated_text: 'x', tool_calls: calls }];
  const { conversation } = decoded(captureOf(undefined, jsonSide('OUTPUT', reply, 'plain')));
  expect(conversation?.replies[0]?.tool_calls).toEqual([
    { type: 'function', function: { name: '', arguments: '{}' } },
    { type: 'function', function: { name: 'look', arguments: '{"at":1}' } },
  ]);
});

test('a payload that takes too long to decode is kept as captured', () => {
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

test.each<[string, number, object]>([
  ['a short line is decoded without a watchdog', 0, jsonSide('INPUT', { n: 1 }, 'plain')],
  ['a long line is watched', 1, jsonSide('INPUT', { text: 'x'.repeat(70_000) }, 'plain')],
  ['a short line that unpacks to much is watched', 1, packed(`[${'1,'.repeat(20_000)}1]`, 'application/json')],
  ['a short line of thousands of values is watched', 1, jsonSide('INPUT', Array(15_000).fill([]), 'plain')],
])('%s', (_, times, side) => {
  const watched = jest.spyOn(Script.prototype, 'runInContext');
  expect(decoded({ captureData: { endpointInput: side } }).request?.kind).toBe('json');
  expect(watched).toHaveBeenCalledTimes(times);
  watched.mockRestore();
});

/** The binary form of the open inference protocol. Each tensor has an equal share of the bytes after the JSON. */
function tensorSide(header: { inputs: object[] }, raw: Buffer): Side {
  const size = raw.length / header.inputs.length;
  const inputs = header.inputs.map((tensor) => ({ parameters: { binary_data_size: size }, ...tensor }));
  const json = Buffer.from(JSON.stringify({ ...header, inputs }));
  return {
    observedContentType: `application/vnd.sagemaker-triton.binary+json;json-header-size=${json.length}`,
    mode: 'INPUT',
    data: Buffer.concat([json, raw]).toString('base64'),
    encoding: 'BASE64',
  };
}
const sized = (bytes: number) => ({ parameters: { binary_data_size: bytes } });
const texts = (count: number) => ({ datatype: 'BYTES', shape: [count] });
const BYTE_TENSOR = { name: 'a', shape: [4], datatype: 'UINT8' };

test.each<[string, object, Buffer, string]>([
  ['more values than bytes', { shape: [5] }, Buffer.alloc(4), 'its shape is not a whole number from 0 to 4'],
  ['fewer values than bytes', { shape: [3] }, Buffer.alloc(4), 'a tensor of 3 values has 4 bytes'],
  ['a huge shape', { shape: [1e9, 1e9, 0] }, Buffer.alloc(4), 'its shape is not a whole number from 0 to 4'],
  ['a negative shape', { shape: [-4] }, Buffer.alloc(4), 'its shape is not a whole number from 0 to 4'],
  ['a size that exceeds the body', sized(5), Buffer.alloc(4), 'its binary_data_size is not a whole number'],
  ['bytes after the last tensor', sized(4), Buffer.alloc(9), 'its tensors end 5 bytes before'],
  ['an unknown datatype', { datatype: 'toString' }, Buffer.alloc(4), 'a datatype is unknown'],
  ['a text that exceeds the body', texts(1), Buffer.from([9, 0, 0, 0]), 'its text’s length is not a whole number'],
  ['too few texts', texts(1), Buffer.alloc(8), 'its texts are shorter than the tensor'],
  ['too many texts', texts(2), Buffer.from([4, 0, 0, 0, 1, 1, 1, 1]), 'its texts are longer than'],
])('tensors with %s are kept as bytes', (_, tensor, raw, problem) => {
  const side = tensorSide({ inputs: [{ ...BYTE_TENSOR, ...tensor }] }, raw);
  const { request, notes } = decoded(captureOf(side, undefined));
  expect(request).toMatchObject({ kind: 'binary', value: { binary: true } });
  expect(request?.problem).toContain(`announced as tensors behind JSON, but ${problem}`);
  expect(notes).toEqual([`request: ${request?.problem}`]);
});

test.each<[string, Buffer]>([
  ['something other than tensors', Buffer.from('{"inputs": [5, null, {"parameters": {"binary_data_size": 0}}]}')],
  ['a list', Buffer.from('[1]')],
  ['invalid JSON', Buffer.from('{')],
])('%s in the JSON before tensors does not fail the decoder', (_, json) => {
  for (const size of [0, 1, json.length, json.length + 1, '9'.repeat(400)]) {
    const observedContentType = `application/vnd.sagemaker-triton.binary+json; json-header-size="${size}"`;
    const side = { ...tensorSide({ inputs: [] }, json), observedContentType, data: json.toString('base64') };
    expect(decoded(captureOf(side, undefined)).request?.bytes).toBe(json.length);
  }
});

test.each<[string, object]>([
  ['lists', jsonSide('INPUT', Array(30_000).fill([]), 'plain')],
  ['objects in JSON lines', sideOf('INPUT', '{}\n'.repeat(30_000), 'application/jsonlines', 'base64')],
  ['rows of CSV', sideOf('INPUT', '1\n'.repeat(30_000), 'text/csv', 'plain')],
  ['a stream of events', sideOf('INPUT', 'data:a\n\n'.repeat(30_000), 'text/event-stream', 'plain')],
  ['tensors', tensorSide({ inputs: [{ ...BYTE_TENSOR, shape: [30_000] }] }, Buffer.alloc(30_000))],
  ['a body of gzip', packed(' '.repeat(2 * MB), 'text/plain')],
  ['lists in a body of gzip', packed(`[${'[],'.repeat(100_000)}1]`, 'application/json')],
])('%s that would exceed the memory limit are kept as captured', (_, side) => {
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

test('a record that would exceed the memory limit is rejected before its values are allocated', () => {
  const line = rawLine(Buffer.from(`{"captureData":{},"more":[${'[],'.repeat(30_000)}1]}`));
  expect(decodeLine(line, { maxWeight: 5 * MB })).toMatchObject({ kind: 'quarantine', tooHeavy: true });
  expect(decodeLine(line, { maxWeight: 1000 * MB }).kind).toBe('capture');
});

test('an empty list of features is no row', () => {
  const formatOf = (features: unknown[]) => decoded(jsonRecord({ features }, { score: 1 })).format;
  expect([[1, 2], []].map(formatOf)).toEqual(['tabular-json', 'json']);
});

describe('a compressed body', () => {
  const bodies = Array.from({ length: 300 }, (_, at) =>
    JSON.stringify({ inputs: `${at} ferns, ${'and more '.repeat(at)}?` }),
  );
  const requestOf = (bytes: Buffer, contentType = 'application/json') => {
    const data = bytes.toString('base64');
    const side = { observedContentType: contentType, mode: 'INPUT', data, encoding: 'BASE64' } as const;
    return decoded(captureOf(side, undefined)).request;
  };

  test.each([
    ['gzip', gzipSync],
    ['zlib', deflateSync],
    ['deflate', deflateRawSync],
  ])('is unpacked: %s', (_, pack) => {
    for (const body of bodies) expect(requestOf(pack(body))).toMatchObject({ kind: 'json', text: body });
  });

  test('is binary where it cannot be unpacked', () => {
    for (const body of bodies) {
      const zstd = Buffer.concat([Buffer.from('28b52ffd', 'hex'), Buffer.from('ééé', 'latin1')]);
      for (const bytes of [brotliCompressSync(body), zstd])
        expect([body, requestOf(bytes)?.kind]).toEqual([body, 'binary']);
    }
  });

  test('in Windows-1252 is no such body', () => {
    const text = 'Öl – “gut”, sagt’s ';
    const bytes = Buffer.from([
      0xd6, 0x6c, 0x20, 0x96, 0x20, 0x93, 0x67, 0x75, 0x74, 0x94, 0x2c, 0x20, 0x73, 0x61, 0x67, 0x74, 0x92, 0x73, 0x20,
    ]);
    expect(requestOf(bytes, 'text/plain; charset=windows-1252')?.text).toBe(text);
    expect(requestOf(Buffer.from('Öl, gut für alle'.repeat(9), 'latin1'), 'text/plain')?.kind).toBe('text');
  });

  test.each([
    ['zlib', deflateSync],
    ['deflate', deflateRawSync],
  ])('that unpacks to too much is not unpacked: %s', (_, pack) => {
    const bomb = captureOf(
      { ...jsonSide('INPUT', 1, 'plain'), data: pack(Buffer.alloc(80e6, 'a')).toString('base64'), encoding: 'BASE64' },
      undefined,
    );
    const { notes, request } = decoded(bomb, { maxWeight: 100e6 });
    expect([request?.kind, notes.join()]).toEqual(['raw', expect.stringContaining('TooHeavy')]);
  });
});

test.each([
  ['Ž', 'the line cannot be read: it is not JSON (unexpected character at position 0)'],
  ['not json ZQMARK', 'the line cannot be read: it is not JSON (unexpected character at position 1)'],
  ['{"captureData":{"x":ZQMARK}}', 'the line cannot be read: it is not JSON (unexpected character at position 20)'],
  [`["${'ZQMARK'.repeat(100)}" "ZQMARK"]`, /^the line cannot be read: it is not JSON \(Expected .+ at position 604 /],
  [
    `{"a":"${'ZQMARK'.repeat(20_000)}",Ž}`,
    /^the line cannot be read: it is not JSON \(Expected .+ at position 120008 /,
  ],
  [`["${'ZQMARK'.repeat(20_000)}",Ž]`, 'the line cannot be read: it is not JSON (unexpected character)'],
  ['{"ZQMARK":"ZQMARK\n"}', /^the line cannot be read: it is not JSON \(Bad control character .+ at position 17 /],
  ['undefined', 'the line cannot be read: it is not JSON (unexpected character at position 0)'],
  ['{"captureData":{"endpointInput":{"data":"ZQMARK', /^the line is cut off: .+, after 47 characters$/],
  ['{"ZQMARK":"\0"}', /NUL bytes, as damaged files do, first at position 11$/],
  ['["ZQMARK"]', /^the line is JSON, but a list where a capture record .+ is expected$/],
  ['{"ZQMARK":1}', 'the line is a JSON object without captureData; it has 1 other field'],
  ['{"captureData":"ZQMARK"}', /^captureData is a string where/],
])('the reason against the line %j says what is wrong and where, and contains nothing of it', (line, message) => {
  const { reason } = decodeLine(rawLine(Buffer.from(line))) as { reason: { message: string } };
  expect(reason.message).toEqual(typeof message === 'string' ? message : expect.stringMatching(message));
  expect(reason.message).not.toMatch(/ZQ|Ž/);
});
