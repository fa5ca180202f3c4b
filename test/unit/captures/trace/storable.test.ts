/** Values and text that MLflow can store. */
import fc from 'fast-check';
import { parseJson } from '../../../../src/captures/json.ts';
import { Storer } from '../../../../src/captures/trace/storable.ts';
import { cleanText, cut, fitted } from '../../../../src/captures/trace/text.ts';
import { storableJson, storableText } from '../../../../src/mlflow/limits.ts';

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

// ------------------------------------------------------------------------------------------------------------ text

test('a text within the limit is kept, and a longer one ends with a visible mark', () => {
  expect(storableText('x'.repeat(1000), 1000)).toBe('x'.repeat(1000));
  expect(storableText('x'.repeat(1001), 1000)).toBe(`${'x'.repeat(993)}… [cut]`);
});

test('ids that differ at their end stay different', () => {
  const [one, other] = [`${'s'.repeat(300)}1`, `${'s'.repeat(300)}2`].map((id) => fitted(id));
  expect(one).not.toBe(other);
  expect(one).toHaveLength(250);
  expect(one).toMatch(/^s{232}…~[0-9a-f]{16}$/);
  expect(fitted('session-1')).toBe('session-1');
});

/** Any UTF-16 units, including lone surrogates and NUL. */
const anyUnits = fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)) });

test('any text fits when it is cut, and can be encoded', () => {
  fc.assert(
    fc.property(anyUnits, fc.integer({ min: 30, max: 80 }), (text, limit) => {
      for (const result of [storableText(text, limit), fitted(text, limit)]) {
        expect(result.length).toBeLessThanOrEqual(limit);
        expect(result.isWellFormed()).toBe(true);
        expect(result).not.toContain('\0');
      }
    }),
  );
});

test('lone surrogates in JSON are replaced, but not text that looks like their escape; undefined is null', () => {
  expect(storableJson({ a: '\ud800', b: '😀' })).toBe('{"a":"\ufffd","b":"😀"}');
  expect(storableJson('\\ud800')).toBe(JSON.stringify('\\ud800'));
  expect(storableJson('\\\\\ud800')).toBe('"\\\\\\\\\ufffd"');
  expect(storableJson(undefined)).toBe('null');
});

test('any JSON can be encoded, and is unchanged without lone surrogates', () => {
  const anyJson = fc.jsonValue({ stringUnit: anyUnits.map((text) => text.slice(0, 1) || 'x') });
  fc.assert(
    fc.property(anyJson, (value) => {
      const json = storableJson(value);
      expect(json.isWellFormed()).toBe(true);
      expect(() => JSON.parse(json)).not.toThrow();
      const before = JSON.stringify(value);
      if (!/\\ud[89a-f]/.test(before)) expect(json).toBe(before);
    }),
  );
});
