/** Figures as people read them, whatever they are. */
import { bracketed, number, percent, points } from '../../../src/core/text/figure-text.ts';
import { metricDifferences } from '../../../src/replay/compare/differences.ts';
import { amountText, DIFFERENCE_COLUMNS, differenceTexts } from '../../../src/replay/gate/texts.ts';

const UNKNOWN = [Infinity, -Infinity, Number.NaN];

test.each(UNKNOWN)('%s is a figure of too few values', (value) => {
  const difference = { before: value, after: value, difference: value, relative: value, low: value, high: value };
  const texts = [
    ...[number, percent, points].map((text) => text(value)),
    ...differenceTexts({ ...difference, significant: false }).flatMap((text) => text.split(' … ')),
    amountText(value, '%'),
  ];
  expect(new Set(texts)).toEqual(new Set(['too few']));
  expect(bracketed({ value, low: 0.5, high: 1 }, percent)).toBe('too few (50.0% to 100.0%)');
  expect(bracketed({ value: 0.7, low: 0.5, high: value }, percent)).toBe('70.0% (50.0% to too few)');
});

test('an interval without ends, of requests that are like their neighbours, is of too few', () => {
  const before = Float64Array.from({ length: 60 }, (_, i) => 100 + ((i * 37) % 11));
  const found = metricDifferences({ before, after: before.map((value, i) => value + i) })?.p50;
  expect(found).toMatchObject({ low: -Infinity, high: Infinity, tooFew: true });
  expect(found && differenceTexts(found).at(-1)).toBe('too few requests');
});

test('a difference with one end says the other', () => {
  const difference = { before: 10, after: 8.7, difference: -1.3, relative: -0.13, low: -Infinity, high: -0.2 };
  const texts = differenceTexts({ ...difference, significant: true });
  expect(Object.fromEntries(DIFFERENCE_COLUMNS.map((column, at) => [column, texts[at]]))).toEqual({
    ...{ before: '10.00', after: '8.70', change: '-1.30', '%': '-13.0' },
    '95% interval': 'too few … -0.20 *',
  });
});
