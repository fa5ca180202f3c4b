/** Tests of values and text that MLflow can store. */
import { parseJson } from '../../../../src/captures/json.ts';
import { Storer } from '../../../../src/captures/trace/storable.ts';
import { cleanText, cut } from '../../../../src/captures/trace/text.ts';

function storedJson(json: string): { json: string; changes: string[] } {
  const parsed = parseJson(json, 1000);
  if (!parsed.ok) throw new Error(parsed.problem);
  const storer = new Storer();
  return { json: JSON.stringify(storer.store(parsed.value)), changes: [...storer.changes] };
}

const nested = (open: string, close: string, depth: number, inner: string): string =>
  open.repeat(depth) + inner + close.repeat(depth);

test('returns the same object if it needs no change', () => {
  const value = { a: [1, 'x', null, { b: true }] };
  const storer = new Storer();
  expect(storer.store(value)).toBe(value);
  expect(storer.changes.size).toBe(0);
});

test.each([
  ['the largest and the smallest integer of 64 bits', '[9223372036854775807,-9223372036854775808]', undefined],
  ['a larger integer', '[9223372036854775808]', '["9223372036854775808"]'],
  ['a smaller integer', '{"a":-9223372036854775809}', '{"a":"-9223372036854775809"}'],
  ['a large number that a double would write as an integer', '[1e19,-3e20]', '[1e+19,-3e+20]'],
  ['a large number that a double would not write as an integer', '[1e21,1e300,1.5e-7]', '[1e+21,1e+300,1.5e-7]'],
  ['a number out of the range of doubles', '[1e400]', '["1e400"]'],
])('stores numbers: %s', (_title, json, stored) => {
  expect(storedJson(json).json).toBe(stored ?? json);
});

test('keeps the levels of nesting that MLflow can read, and writes deeper values as JSON text', () => {
  // An object uses three of 90 levels, a list two.
  expect(storedJson(nested('{"a":', '}', 30, '1')).changes).toEqual([]);
  expect(storedJson(nested('[', ']', 45, '1')).changes).toEqual([]);
  expect(storedJson(nested('{"a":', '}', 32, '1'))).toEqual({
    json: nested('{"a":', '}', 30, JSON.stringify('{"a":{"a":1}}')),
    changes: ['nesting'],
  });
  expect(storedJson(nested('[', ']', 46, '1'))).toEqual({
    json: nested('[', ']', 45, JSON.stringify('[1]')),
    changes: ['nesting'],
  });
});

test('replaces nesting that is too deep for JSON by a note', () => {
  const deep = JSON.parse(nested('[', ']', 200_000, '1')) as unknown;
  const storer = new Storer();
  expect(JSON.stringify(storer.store(deep))).toContain('nested too deep to be written');
});

test('shows numbers that no document can have as text', () => {
  const storer = new Storer();
  expect(storer.store([Number.POSITIVE_INFINITY, Number.NaN, 1e308])).toMatchObject(['Infinity', 'NaN', {}]);
  expect([...storer.changes]).toEqual(['numbers']);
});

test('replaces NUL and halves of surrogate pairs, also in keys', () => {
  const storer = new Storer();
  expect(storer.store({ 'k\0': ['a\ud800b', '🌿'] })).toEqual({ 'k\ufffd': ['a\ufffdb', '🌿'] });
  expect([...storer.changes]).toEqual(['characters']);
});

test('keeps a key that is named like a property of the prototype', () => {
  const stored = new Storer().store(JSON.parse('{"__proto__":"a\\u0000"}'));
  expect(JSON.stringify(stored)).toBe('{"__proto__":"a\ufffd"}');
});

test('cuts with a mark, halves no character, and keeps short text', () => {
  expect(cut('fern', 4)).toBe('fern');
  expect(cut('ferns', 4)).toBe('fer…');
  expect(cut('ab🌿c', 4)).toBe('ab…');
  expect(cleanText('🌿\0\udc00')).toBe('🌿\ufffd\ufffd');
});
