/** Setting a value in JSON text without changing the rest of the text. */
import fc from 'fast-check';
import { setJsonValue } from '../../../src/replay/request/json-splice.ts';

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
