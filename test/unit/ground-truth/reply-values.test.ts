/** The predictions in what models reply, in every form that is known, and which values are the same. */
import fc from 'fast-check';
import { parseJson } from '../../../src/captures/json.ts';
import type { LabelValue, Prediction } from '../../../src/core/contract/ground-truth.ts';
import { groundTruthSchema } from '../../../src/core/settings/ground-truth-setting.ts';
import { classOf, numberOf, sameLabel } from '../../../src/ground-truth/label-value.ts';
import { predictionOf } from '../../../src/ground-truth/predictions/reply-values.ts';
import { normalizedText, textHashes } from '../../../src/ground-truth/texts.ts';
import { scored } from './rows-of.ts';

const settings = (given: object = {}) => groundTruthSchema.parse(given);

test.each<[string, unknown, Prediction]>([
  ['a number (XGBoost)', 0.0254181120544672, { value: 0.0254181120544672 }],
  ['a number as a text', '0.25', { value: 0.25 }],
  ['a class', 'setosa', { value: 'setosa' }],
  ['a class in quotes that looks like a number', '007', { value: '007' }],
  ['true', true, { value: true }],
  ['zero', 0, { value: 0 }],
  ['a list of one', [[0.7]], { value: 0.7 }],
  ['probabilities by position', [0.1, 0.9], { scores: [0.1, 0.9] }],
  ['probabilities as texts', ['0.1', '9e-1'], { scores: [0.1, 0.9] }],
  ['probabilities by name', { probabilities: [0.2, 0.8] }, { scores: [0.2, 0.8] }],
  ['probabilities by class', { probabilities: { dog: 0.2, cat: 0.8 } }, scored(undefined, [0.8, 0.2], 'cat', 'dog')],
  ['a regression of linear learner', { score: 3.25 }, { value: 3.25 }],
  [
    'linear learner: the score is that of the positive class',
    { score: 0.4, predicted_label: 0 },
    scored(0, [0.4], '1'),
  ],
  ['classes of linear learner', { score: [0.1, 0.7, 0.2], predicted_label: 1 }, { value: 1, scores: [0.1, 0.7, 0.2] }],
  ['k-NN', { predicted_label: 5.0 }, { value: 5 }],
  ['k-means', { closest_cluster: 5, distance_to_cluster: 36.5 }, { value: 5 }],
  [
    'BlazingText',
    { label: ['__label__pests', '__label__soil'], prob: [0.7, 0.2] },
    scored('pests', [0.7, 0.2], 'pests', 'soil'),
  ],
  ['BlazingText with one label', { label: ['__label__pests'], prob: [0.7] }, scored('pests', [0.7], 'pests')],
  [
    'a text classifier: the score is of the label',
    { label: 'POSITIVE', score: 0.99 },
    scored('POSITIVE', [0.99], 'POSITIVE'),
  ],
  [
    'a text classifier with all scores, in one order whatever the reply’s',
    [
      [
        { label: 'sad', score: 0.2 },
        { label: 'happy', score: 0.8 },
      ],
    ],
    scored(undefined, [0.8, 0.2], 'happy', 'sad'),
  ],
  [
    'zero-shot classification',
    { sequence: 'Ferns', labels: ['plant', 'animal'], scores: [0.9, 0.1] },
    scored(undefined, [0.1, 0.9], 'animal', 'plant'),
  ],
  ['a class with its probability, as a row of CSV', ['no', 0.07], scored('no', [0.07], '1')],
  [
    'Autopilot with all classes',
    ['no', '0.93', "['no', 'yes']", '[0.93, 0.07]'],
    scored('no', [0.93, 0.07], 'no', 'yes'),
  ],
  [
    'Autopilot in JSON',
    { predicted_label: 'no', probability: 0.07, probabilities: [0.93, 0.07], labels: ['no', 'yes'] },
    scored('no', [0.93, 0.07], 'no', 'yes'),
  ],
  ['one field of any name', { dot_product: 1.5 }, { value: 1.5 }],
  ['a field of another case', { Prediction: 'a' }, { value: 'a' }],
  ['a class named like a prototype', JSON.parse('{"__proto__":3}'), { value: 3 }],
  ['NaN as a text', 'NaN', { value: 'NaN' }],
  ['a score that is no number', { label: 'a', score: 'high' }, { value: 'a' }],
  ['probabilities with a gap', { predicted_label: 1, scores: [0.1, null] }, { value: 1 }],
  ['more classes than are kept', Array.from({ length: 1000 }, (_, n) => (n === 7 ? 0.5 : 0.0005)), { value: 7 }],
])('%s', (_, reply, expected) => {
  expect(predictionOf(reply, settings())).toEqual(expected);
});

test('a number beyond double precision is a number, and a long id stays as it is', () => {
  const exact = (json: string): unknown => (parseJson(json) as { value: unknown }).value;
  expect(predictionOf(exact('12345678901234567890'), settings())).toEqual({ value: '12345678901234567890' });
  expect(predictionOf(exact('[0.10000000000000000001, 0.9]'), settings())).toEqual({ scores: [0.1, 0.9] });
});

test.each<[string, object, unknown, Prediction | undefined]>([
  ['a nested field', { prediction: 'out.fern' }, { out: { fern: 3, moss: 4 } }, { value: 3 }],
  ['a field with a dot in its name', { prediction: 'out.fern' }, { 'out.fern': 3, other: 1 }, { value: 3 }],
  ['columns of a CSV row', { prediction: '1', probability: '0' }, [0.3, 0], scored(0, [0.3], '1')],
  ['a probability alone', { probability: 'p' }, { p: 0.3, label: 'x' }, { value: 0.3 }],
  ['the positive class of the settings', { positive: 'yes' }, ['no', 0.1], scored('no', [0.1], 'yes')],
  [
    'probabilities of all classes',
    { prediction: 'c', probability: 'p' },
    { c: 'b', p: { a: 0.4, b: 0.6 } },
    scored('b', [0.4, 0.6], 'a', 'b'),
  ],
  ['a named field that no object owns', { prediction: 'constructor' }, { label: 'x' }, { value: 'x' }],
])('the settings name %s', (_, given, reply, expected) => {
  expect(predictionOf(reply, settings(given))).toEqual(expected);
});

test('no reply makes it throw, and what it keeps is bounded', () => {
  const names = ['label', 'labels', 'score', 'scores', 'prediction', 'probabilities', '__proto__', '0'];
  const keys = fc.oneof(fc.constantFrom(...names), fc.string({ maxLength: 3 }));
  const { reply } = fc.letrec((tie) => ({
    cell: fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0),
      fc.boolean(),
      fc.constant(null),
      fc.string({ maxLength: 100 }),
      fc.constant("['a', 'b']"),
    ),
    list: fc.array(tie('reply'), { maxLength: 4 }),
    object: fc.dictionary(keys, tie('reply'), { maxKeys: 4, noNullPrototype: true }),
    reply: fc.oneof({ depthSize: 'small' }, tie('cell'), tie('list'), tie('object')),
  }));
  const given = fc.record(
    {
      kind: fc.constantFrom('classes', 'numbers', 'texts'),
      prediction: fc.constantFrom(...names),
      probability: fc.constantFrom(...names),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(reply, given, (value, own) => {
      const found = predictionOf(value, settings(own));
      // Vectors and JSON of no known form have none.
      if (value === null || found === undefined) return expect(typeof value).toBe('object');
      expect(Object.keys(found ?? {})).not.toHaveLength(0);
      expect(JSON.parse(JSON.stringify(found))).toEqual(found);
      const { scores, classes } = found as Prediction;
      if (classes !== undefined) expect(scores).toHaveLength(classes.length);
    }),
    { numRuns: 2000 },
  );
});

test.each<[string, unknown, Prediction]>([
  ['a million numbers', Array.from({ length: 1e6 }, (_, n) => (n === 5 ? 0.5 : 5e-7)), { value: 5 }],
  [
    'a million labels',
    { labels: Array.from({ length: 1e6 }, (_, n) => `${n}`), scores: new Array(1e6).fill(0.5) },
    { value: 0 },
  ],
  ['a long cell that looks like a list', ['a', `[${'1,'.repeat(1e6)}1]`], { value: 'a' }],
  ['a million cells', ['a', 0.5, ...new Array(1e6).fill([])], scored('a', [0.5], '1')],
])('of %s, the likeliest alone is kept', (_, reply, expected) => {
  expect(predictionOf(reply, settings())).toEqual(expected);
});

test('words are compared as a text, and JSON of no known form only where the settings say so', () => {
  for (const reply of [{ a: 1, b: 2 }, [{ mean: [1] }, { mean: [2] }], [], {}, [[1], [2]]]) {
    expect(predictionOf(reply, settings())).toBeUndefined();
    expect(predictionOf(reply, settings({ kind: 'texts' }))).toEqual({ text: textHashes(JSON.stringify(reply)) });
  }
  const long = 'a'.repeat(65);
  expect(predictionOf(long, settings())).toEqual({ text: textHashes(long) });
  for (const kind of ['texts', undefined] as const)
    expect(predictionOf({ a: long, b: 1 }, settings({ kind, prediction: 'a' }))).toEqual({ text: textHashes(long) });
  expect(predictionOf('fern', settings({ kind: 'texts' }))).toEqual({ text: textHashes('fern') });
  expect(predictionOf('', settings())).toEqual({ text: textHashes('') });
});

test('no reply has no prediction, and one that is too deep for JSON does not throw', () => {
  expect(predictionOf(null, settings())).toBeUndefined();
  expect(predictionOf(undefined, settings())).toBeUndefined();
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level += 1) deep = [deep, {}];
  expect(predictionOf(deep, settings())).toBeUndefined();
});

test('normalized texts agree where readers see no difference', () => {
  for (const alike of ['Ferns like shade.', ' “ferns  like\nshade”', '**FERNS LIKE SHADE!**', 'ｆerns\tlike shade '])
    expect(normalizedText(alike)).toBe('ferns like shade');
  expect(normalizedText('ﬁt')).toBe('fit');
  for (const [a, b] of [
    ['-5', '5'],
    ['5%', '5'],
    ['$5', '5'],
    ['a b', 'ab'],
  ] as const)
    expect(normalizedText(a)).not.toBe(normalizedText(b));
  expect(textHashes('Fern')[0]).not.toBe(textHashes('fern')[0]);
  expect(textHashes('Fern')[1]).toBe(textHashes('fern.')[1]);
  expect(textHashes('x').map((hash) => hash.length)).toEqual([11, 11]);
});

// ---------------------------------------------------------------------------------------------------- equal values

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
