import type { LabelValue } from '../../../src/core/contract/ground-truth.ts';
import { classOf, numberOf, sameLabel } from '../../../src/ground-truth/label-value.ts';

test.each<[string, LabelValue[]]>([
  ['1', [1, '1', '1.0', ' 1 ', '+1', true, 'true', 'True', 'TRUE']],
  ['0', [0, -0, '0', '-0.0', false, 'False']],
  ['0.5', [0.5, '0.5', ' 0.5']],
  ['cat', ['cat', ' cat', 'cat\t']],
  ['caf\u00e9', ['cafe\u0301', 'caf\u00e9']],
])('the class %s is written in many ways', (name, ways) => {
  expect(ways.map(classOf)).toEqual(ways.map(() => name));
  expect(ways.every((way) => sameLabel(way, ways[0] as LabelValue))).toBe(true);
});

test.each<[LabelValue, LabelValue]>([
  ['1', '2'],
  ['cat', 'Cat'],
  ['', '0'],
  ['truer', true],
  ['12345678901234567890', '12345678901234567891'],
  ['1e999', '2e999'],
  ['0x10', 16],
  ['01', 1],
  ['007', '7'],
  ['1E2', 100],
  ['0.10', 0.1],
  ['.5', '0.50'],
  ['1_000', 1000],
])('%j and %j are different', (a, b) => {
  expect(sameLabel(a, b)).toBe(false);
});

test('a number is one, or the text of one', () => {
  expect([1.5, ' -2.5e3 ', true, '7.'].map(numberOf)).toEqual([1.5, -2500, 1, 7]);
  const none = ['', ' ', 'NaN', 'Infinity', '1e999', '1,5', '0x10', 'one', Number.NaN, Infinity];
  expect(none.map(numberOf)).toEqual(none.map(() => null));
  // No text makes the expression slow.
  expect(numberOf(`${'1'.repeat(1_000_000)}x`)).toBeNull();
});
