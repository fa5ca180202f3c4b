/** Preparing captured requests byte for byte, and with overrides, which change no other byte. */
import fc from 'fast-check';
import { setJsonValue } from '../../../src/replay/request/json-splice.ts';
import { literalRequest } from '../../../src/replay/request/literal.ts';

const line = (endpointInput: unknown, more: object = {}): Buffer =>
  Buffer.from(
    JSON.stringify({ captureData: { endpointInput, ...more }, eventMetadata: { eventId: 'e1' }, eventVersion: '0' }),
  );
const json = (data: string, observedContentType: string | null = 'application/json') =>
  line({ observedContentType, mode: 'INPUT', data, encoding: 'JSON' });
const request = (bytes: Buffer, overrides: Parameters<typeof literalRequest>[1] = {}) => {
  const found = literalRequest(bytes, overrides);
  if (found.kind === 'skipped') throw new Error(found.reason);
  return found.request;
};

describe('the request of a capture', () => {
  test.each([
    ['odd spacing and numbers', '{ "messages" : [],\n "n": 1.0, "big": 12345678901234567890 }'],
    ['not JSON at all', 'x'],
    ['text with characters outside ASCII', '{"prompt":"¿Cuándo llega mi paquete? 📦"}'],
    ['nothing', ''],
  ])('is sent byte for byte: %s', (_, data) => {
    expect(request(json(data)).body).toEqual(Buffer.from(data));
  });

  test('is sent as its bytes when it is base64', () => {
    const bytes = Buffer.from([0, 1, 2, 255, 10, 13]);
    const found = request(
      line({ observedContentType: 'application/x-image', data: bytes.toString('base64'), encoding: 'BASE64' }),
    );
    expect(found).toMatchObject({ body: bytes, contentType: 'application/x-image', streaming: false, json: undefined });
  });

  test('keeps the long numbers of a document in place of its text', () => {
    const document = '{"id":12345678901234567890,"n":0.1}';
    const bytes = Buffer.from(`{"captureData":{"endpointInput":{"data":${document},"encoding":"JSON"}}}`);
    expect(request(bytes).body.toString()).toBe(document);
  });

  test('has the encodings of the pipeline: in any case, and text by default', () => {
    const data = Buffer.from('{"a":1}').toString('base64');
    expect(request(line({ data, encoding: 'base64' })).body.toString()).toBe('{"a":1}');
    expect(request(line({ data: 'x', encoding: '' })).body.toString()).toBe('x');
  });

  test('keeps the line ending and the content type parameters of CSV', () => {
    const found = request(
      line({ observedContentType: 'text/csv; charset=utf-8', data: '1,"a ""b"""\r\n', encoding: 'CSV' }),
    );
    expect(found.body.toString()).toBe('1,"a ""b"""\r\n');
    expect(found.contentType).toBe('text/csv; charset=utf-8');
  });

  test('is sent as a streaming request when the body asks for a stream', () => {
    expect(request(json('{"messages":[],"stream":true}')).streaming).toBe(true);
    expect(request(json('{"messages":[{"content":"\\"stream\\":true"}]}')).streaming).toBe(false);
  });

  test.each([
    [null, 'application/json'],
    ['bad\r\nX-Injected: 1', 'application/json'],
    ['x'.repeat(1025), 'application/json'],
    ['x'.repeat(1024), 'x'.repeat(1024)],
  ])('replaces a content type that SageMaker would not accept: %j', (contentType, expected) => {
    expect(request(json('{"a":1}', contentType)).contentType).toBe(expected);
  });

  test.each([
    ['NotJson', Buffer.from('{"captureData": {"endpointInput": {"data": "cut off he')],
    ['NotACaptureRecord', Buffer.from('{}')],
    ['NotACaptureRecord', Buffer.from('[]')],
    ['NotACaptureRecord', Buffer.from('null')],
    ['NoRequest', Buffer.from('{"captureData":{"endpointOutput":{"data":"x","encoding":"JSON"}}}')],
    ['NoRequest', line({ data: null, encoding: 'JSON' })],
    ['UndecodableRequest', line({ data: '!!! not base64 !!!', encoding: 'BASE64' })],
    ['UndecodableRequest', line({ data: '{}', encoding: 'ROT13' })],
    ['NestedTooDeep', Buffer.from(`{"captureData":${'['.repeat(10_000)}${']'.repeat(10_000)}}`)],
  ])('is skipped as %s', (reason, bytes) => {
    expect(literalRequest(bytes)).toMatchObject({ kind: 'skipped', reason });
  });
});

describe('overrides', () => {
  test('change only the values that they name', () => {
    const data = '{"model": "old", "messages": [ ], "temperature": 1.0}';
    const overrides = { model: 'new', set: ['metadata.run=7'] };
    expect(request(json(data), overrides).body.toString()).toBe(
      '{"model": "new", "messages": [ ], "temperature": 1.0,"metadata":{"run":7}}',
    );
  });

  test('ask for the usage of a stream, if the form supports it', () => {
    expect(request(json('{"messages":[]}'), { stream: true })).toMatchObject({
      streaming: true,
      body: Buffer.from('{"messages":[],"stream":true,"stream_options":{"include_usage":true}}'),
    });
    expect(request(json('{"inputs":"x"}'), { stream: true }).body.toString()).toBe('{"inputs":"x","stream":true}');
    const own = '{"prompt":"x","stream_options":{"include_usage":false}}';
    expect(request(json(own), { stream: true }).json).toMatchObject({ stream_options: { include_usage: false } });
  });

  test('do not change bodies that are not JSON objects', () => {
    expect(request(json('1,2,3', 'text/csv'), { model: 'm', stream: true }).body.toString()).toBe('1,2,3');
  });

  test('that cannot be applied skip the record, with the reason', () => {
    const found = literalRequest(json('{"a":1}'), { set: ['a.b=1'] });
    expect(found).toMatchObject({ kind: 'skipped', reason: 'OverrideFailed' });
  });
});

// Not a backslash alone, which has its own cases below: after an object with that key, JSON.parse of Node 24.21 reads the key `\"` of the next
// object as a backslash.
const key = fc.oneof(fc.constantFrom('model', 'a"b', 'ключ', '', '\\n', '__proto__x'), fc.string());
const object = fc.dictionary(key, fc.jsonValue(), { maxKeys: 6 });

describe('setting a value', () => {
  test('changes that value and no other byte', () => {
    const text = '{ "a" : 1.0,\n  "big": 12345678901234567890, "model":"old", "b": [ 1,  2 ] }';
    expect(setJsonValue(text, ['model'], '"new"')).toBe(
      '{ "a" : 1.0,\n  "big": 12345678901234567890, "model":"new", "b": [ 1,  2 ] }',
    );
  });

  test.each([
    ['{"p":{"t":0.5,"k":1}}', ['p', 't'], '0', '{"p":{"t":0,"k":1}}'],
    ['{"p":{}}', ['p', 't'], '0', '{"p":{"t":0}}'],
    ['{"a":1}', ['p', 't'], '0', '{"a":1,"p":{"t":0}}'],
    ['{}', ['stream'], 'true', '{"stream":true}'],
    [' { } ', ['stream'], 'true', ' { "stream":true} '],
    ['{"p" : NaN , "q":[{"p":1}]}', ['p'], '0', '{"p" : 0 , "q":[{"p":1}]}'],
    ['{"q":1, "p": {"t": {} } }', ['p', 't', 'x'], '0', '{"q":1, "p": {"t": {"x":0} } }'],
    [' {"a":"}\\"{"} ', ['b'], '[1]', ' {"a":"}\\"{","b":[1]} '],
    ['{"a":1,"a":2}', ['a'], '3', '{"a":1,"a":3}'],
    ['{"\\u0061":1}', ['a'], '2', '{"\\u0061":2}'],
    ['{"\\\\":1,"\\"":2}', ['\\'], '3', '{"\\\\":3,"\\"":2}'],
    ['{"\\\\":1}', ['"'], '2', '{"\\\\":1,"\\"":2}'],
  ])('%s', (text, path, value, expected) => {
    expect(setJsonValue(text, path, value)).toBe(expected);
  });

  test('can be read back, whatever the object', () => {
    fc.assert(
      fc.property(
        object,
        fc.array(key, { minLength: 1, maxLength: 1 }),
        fc.jsonValue(),
        fc.constantFrom(0, 2),
        (value, path, set, indent) => {
          const text = setJsonValue(JSON.stringify(value, null, indent), path, JSON.stringify(set));
          const expected = JSON.parse(JSON.stringify(value)) as Record<string, unknown>;
          const property = { value: set, enumerable: true, configurable: true, writable: true };
          Object.defineProperty(expected, path[0] ?? '', property);
          expect(JSON.stringify(JSON.parse(text))).toBe(JSON.stringify(expected));
        },
      ),
    );
  });

  test.each(['{"p":1}', '{"p":[1]}', '{"p":"x"}', '{"p":null}'])('refuses a path through the value of %s', (text) => {
    expect(() => setJsonValue(text, ['p', 'x'], '1')).toThrow('there is no object for the key "x"');
  });
});
