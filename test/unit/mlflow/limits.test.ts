/** Tests of fitting text to MLflow’s limits. */
import fc from 'fast-check';
import { cleanText, fitted } from '../../../src/captures/trace/text.ts';
import { storableJson, storableText } from '../../../src/mlflow/limits.ts';

/** Any UTF-16 units, including lone surrogates and NUL. */
const anyUnits = fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)) });

describe('cutting', () => {
  test('keeps a text within the limit', () => {
    expect(storableText('short', 10)).toBe('short');
    expect(storableText('x'.repeat(1000), 1000)).toHaveLength(1000);
  });

  test('ends a longer text with a visible mark, within the limit', () => {
    expect(storableText('x'.repeat(1001), 1000)).toBe(`${'x'.repeat(993)}… [cut]`);
  });

  test('does not halve a surrogate pair', () => {
    const text = `${'x'.repeat(992)}😀${'y'.repeat(100)}`;
    expect(storableText(text, 1000)).toBe(`${'x'.repeat(992)}… [cut]`);
  });

  test('keeps identifiers different that differ at their end', () => {
    const [one, other] = [`${'s'.repeat(300)}1`, `${'s'.repeat(300)}2`].map((id) => fitted(id));
    expect(one).not.toBe(other);
    expect(one).toHaveLength(250);
    expect(one).toMatch(/^s{232}…~[0-9a-f]{16}$/);
    expect(fitted('session-1')).toBe('session-1');
  });

  test('always returns text that fits and can be encoded', () => {
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
});

describe('characters that databases refuse', () => {
  test('replaces NUL and lone surrogates in text', () => {
    expect(cleanText('a\0b\ud800c')).toBe('a\ufffdb\ufffdc');
    expect(cleanText('😀')).toBe('😀');
  });

  test('replaces lone surrogates in JSON, but not text that looks like their escape', () => {
    expect(storableJson({ a: '\ud800', b: '😀' })).toBe('{"a":"\ufffd","b":"😀"}');
    expect(storableJson('\\ud800')).toBe(JSON.stringify('\\ud800'));
    expect(storableJson('\\\\\ud800')).toBe('"\\\\\\\\\ufffd"');
  });

  test('returns JSON that can be encoded, and does not change other JSON', () => {
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

  test('writes undefined as null', () => {
    expect(storableJson(undefined)).toBe('null');
  });
});
