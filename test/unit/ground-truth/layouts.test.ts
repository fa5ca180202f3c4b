/** The same predictions in the layouts of containers and vendors: which inference each is of, and what it is. */
import type { DecodeOptions } from '../../../src/captures/types.ts';
import tables from './headers.json' with { type: 'json' };
import { classed, lists, rowsOf, scored, values } from './rows-of.ts';

const header = { csvHeader: true };
const texts = { inputs: ['good', 'bad'] };
const [good, bad] = [
  { label: 'POSITIVE', score: 0.98 },
  { label: 'NEGATIVE', score: 0.95 },
];
const both = [
  [good, { label: 'NEGATIVE', score: 0.02 }],
  [bad, { label: 'POSITIVE', score: 0.05 }],
];
const ofBoth = {
  _0: scored(undefined, [0.02, 0.98], 'NEGATIVE', 'POSITIVE'),
  _1: scored(undefined, [0.95, 0.05], 'NEGATIVE', 'POSITIVE'),
};
const three = { scores: [0.1, 0.7, 0.2] };

test.each<[string, unknown, unknown, object, DecodeOptions?]>([
  ['softprob of XGBoost, one row', '1,2', '[0.1, 0.7, 0.2]', { '': three }],
  ['softprob of XGBoost, rows', '1\n2', '[0.1, 0.7, 0.2],[0.8, 0.1, 0.1]', lists(three.scores, [0.8, 0.1, 0.1])],
  ['softprob of two classes, two rows', '1\n2', '[0.1, 0.9],[0.8, 0.2]', lists([0.1, 0.9], [0.8, 0.2])],
  ['lists by line', '1\n2', '[0.7, 0.2, 0.1]\n[0.1, 0.8, 0.1]\n', lists([0.7, 0.2, 0.1], [0.1, 0.8, 0.1])],
  ['a list of lists', '1\n2', '[[0.1, 0.9], [0.8, 0.2]]', lists([0.1, 0.9], [0.8, 0.2])],
  ['a list of all rows', '1\n2', '[0.1, 0.9]', values(0.1, 0.9)],
  ['NumPy’s lists', '1\n2', '[0.1 0.9]\n[0.8 0.2]', lists([0.1, 0.9], [0.8, 0.2])],
  ['texts in brackets', '1\n2', '["a","b"]', values('a', 'b')],
  ['a class and a list', '1', 'no,[0.9, 0.1]', { '': { value: 'no', scores: [0.9, 0.1] } }],
  ['libsvm', 'text/libsvm|0 1:2\n1 2:1\n', '0.1,0.9', values(0.1, 0.9)],
  ['libsvm, softprob', 'text/x-libsvm|1:2\n2:1', '[0.1, 0.9],[0.8, 0.2]', lists([0.1, 0.9], [0.8, 0.2])],
  ['libsvm, JSON', 'text/libsvm|1:2\n2:1', { predictions: [{ score: 0.1 }, { score: 0.9 }] }, values(0.1, 0.9)],
  ['records', [{ age: 30 }, { age: 40 }, { age: 50 }], [0, 1, 1], values(0, 1, 1)],
  ['objects under inputs', { inputs: [{ age: 30 }, { age: 40 }] }, { predictions: [0, 1] }, values(0, 1)],
  ['columns', { inputs: { age: [30, 40], pay: [2, 4] } }, { predictions: [0, 1] }, values(0, 1)],
  ['columns alone', { age: [30, 40, 50], pay: [2, 4, 1] }, [0, 1, 1], values(0, 1, 1)],
  ['rows under data', { data: [[30, 2], [40, 4]] }, [0, 1], values(0, 1)], // biome-ignore format: short
  ['pandas’ columns', { age: { 0: 30, 1: 40 }, pay: { 0: 1, 1: 2 } }, { y: { 0: 0, 1: 1 } }, values(0, 1)],
  ['pandas’ split', { columns: ['a'], data: [[1], [2]] }, [0.2, 0.7], values(0.2, 0.7)], // biome-ignore format: short
  [
    'a frame in predictions',
    { dataframe_records: [{ a: 1 }, { a: 2 }] },
    { predictions: { c: ['x', 'y'] } },
    values('x', 'y'),
  ],
  ['pandas’ split in the reply', [[1], [2]], { columns: ['c'], index: [0, 1], data: [['x'], ['y']] }, values('x', 'y')],
  [
    'pandas’ split in the reply, with scores',
    [[1], [2]],
    { predictions: { columns: ['score', 'label'], data: [[0.9, 'x'], [0.8, 'y']] } }, // biome-ignore format: short
    classed(['x', 0.9], ['y', 0.8]),
  ],
  [
    'a class under `classes`, as TensorFlow’s estimators have it',
    { instances: [{ b64: 'AAAA' }, { b64: 'BBBB' }] },
    { predictions: [{ classes: ['cat'], probabilities: [0.1, 0.9] }, { classes: ['dog'], probabilities: [0.8, 0.2] }] }, // biome-ignore format: short
    { _0: { value: 'cat', scores: [0.1, 0.9] }, _1: { value: 'dog', scores: [0.8, 0.2] } },
  ],
  ['features', { features: [[1, 2], [3, 4]] }, { predictions: [0, 1] }, values(0, 1)], // biome-ignore format: short
  ['a header in the reply', 'age\n30\n40', 'prediction\n0.1\n0.9', values(0.1, 0.9), header],
  ['a header in the request alone', 'age\n30\n40', '0.1\n0.9', values(0.1, 0.9), header],
  ['columns of a reply by name', 'a,b\n1,2\n3,4', ',probability,predicted_label\n0,0.1,x\n1,0.9,y', { _0: scored('x', [0.1], '1'), _1: scored('y', [0.9], '1') }, header], // biome-ignore format: short
  ['a header that the caller left out', '1,2\n3,4', '0.1\n0.9', values(0.1, 0.9), header],
  ['a header that the caller left out of one row', '1,2', '0.9', { '': { value: 0.9 } }, header],
  ['NumPy’s rows', '1\n2', '[[0.1 0.9]\n [0.8 0.2]]', lists([0.1, 0.9], [0.8, 0.2])],
  ['a list of several lines', '1', '[0.1,\n 0.7,\n 0.2\n]\n', { '': three }],
  ['NumPy’s numbers', '1', '[np.float64(0.1), np.float64(0.7), np.float64(0.2)]', { '': three }],
  ['several texts', texts, [good, bad], classed(['POSITIVE', 0.98], ['NEGATIVE', 0.95])],
  ['several texts of one class', texts, [good, good], classed(['POSITIVE', 0.98], ['POSITIVE', 0.98])],
  ['several texts, all classes', texts, both, ofBoth],
  ['one text, all classes', { inputs: 'good' }, both[0], { '': ofBoth._0 }],
  ['one text in a list, all classes', { inputs: ['good'] }, both[0], { '': ofBoth._0 }],
  ['instances of one text', { instances: ['good'] }, { predictions: both[0] }, { '': ofBoth._0 }],
  ['texts alone', ['good', 'bad'], [good, bad], classed(['POSITIVE', 0.98], ['NEGATIVE', 0.95])],
  ['pairs of texts', { inputs: [['a', 'b'], ['c', 'd']] }, both, ofBoth], // biome-ignore format: short
  [
    'zero-shot of several texts',
    { ...texts, parameters: { candidate_labels: ['x', 'y'] } },
    [
      ['x', 'y'],
      ['y', 'x'],
    ].map((labels) => ({ sequence: 's', labels, scores: [0.9, 0.1] })),
    { _0: scored(undefined, [0.9, 0.1], 'x', 'y'), _1: scored(undefined, [0.1, 0.9], 'x', 'y') },
  ],
  [
    'vLLM’s classify',
    { model: 'm', input: ['a', 'b'] },
    { id: 'c', object: 'list', model: 'm', data: [{ index: 1, label: 'no', probs: [0.8, 0.2] }, { index: 0, label: 'yes', probs: [0.1, 0.9] }] }, // biome-ignore format: short
    { _0: { value: 'yes', scores: [0.1, 0.9] }, _1: { value: 'no', scores: [0.8, 0.2] } },
  ],
  [
    'a verbose reply for three rows',
    '1\n2\n3',
    { probabilities: [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], labels: [0, 1], predicted_label: [0, 1, 0] }, // biome-ignore format: short
    {
      _0: scored(0, [0.9, 0.1], '0', '1'),
      _1: scored(1, [0.2, 0.8], '0', '1'),
      _2: scored(0, [0.7, 0.3], '0', '1'),
    },
  ],
  [
    'a verbose reply for as many rows as classes',
    '1\n2',
    { probabilities: [[0.9, 0.1], [0.8, 0.2]], labels: ['n', 'y'], predicted_label: ['n', 'n'], model: 'm' }, // biome-ignore format: short
    {
      _0: scored('n', [0.9, 0.1], 'n', 'y'),
      _1: scored('n', [0.8, 0.2], 'n', 'y'),
    },
  ],
  [
    'a verbose reply for one row',
    '1',
    { probabilities: [[0.9, 0.1]], labels: ['n', 'y'], predicted_label: ['n'] },
    { '': scored('n', [0.9, 0.1], 'n', 'y') },
  ],
  [
    'classes by name',
    '1',
    { predictions: [{ yes: 0.1, no: 0.9 }] },
    { '': scored(undefined, [0.9, 0.1], 'no', 'yes') },
  ],
  ['codes that look like numbers', '1\n2\n3\n4', '007\n1E2\n0.10\n1.0', values('007', '1E2', '0.10', 1)],
])('%s', (_, request, reply, expected, options = {}) => {
  expect(rowsOf(request, reply, options).found).toEqual(expected);
});

const unclear = /it is not kept as a prediction/;
test.each<[string, unknown, unknown, RegExp, DecodeOptions?]>([
  ['more outputs than inputs', 'a\n1\n2', 'p\n0.1\n0.9\n1', /3 inputs but 4 outputs/],
  ['a header in the reply alone', '30\n40', 'prediction\n0.1\n0.9', /2 inputs but 3 outputs/],
  ['a header in the request alone', 'age\n30\n40', '0.1\n0.9', /3 inputs but 2 outputs/],
  ['headers, not the setting', 'age\n30\n40', 'prediction\n0.1\n0.9', /a header, and CSV_HEADER is not set/],
  ['headers of other names', 'age\n30\n40', 'churn_risk\n0.1\n0.9', /begins with a header/],
  ['headers, and pandas’ numbers for names', 'age\n30\n40', '0\n0.1\n0.9', /begins with a header/],
  ['a list in other brackets', '1', '(0.1, 0.9)', /a list whose brackets do not match/],
  ['numbers that may be one row or rows', { inputs: [5, 6] }, { predictions: [0.1, 0.9] }, unclear],
  ['rows by name', { r1: { a: 1, b: 2 }, r2: { a: 3, b: 4 } }, [0.1, 0.9], unclear],
  ['columns with names of rows', { age: { 10: 30, 11: 40 }, pay: { 10: 1, 11: 2 } }, [0, 1], unclear],
  ['fewer rows than texts', { inputs: ['a', 'b', 'c'] }, [good, bad], /3 inputs but 2 outputs/],
  [
    'fewer replies than prompts',
    { inputs: ['a', 'b', 'c'] },
    [{ generated_text: 'x' }, { generated_text: 'y' }],
    /3 inputs but 2/,
  ],
  ['classes or rows', '1\n2', { probabilities: [[0.9, 0.1], [0.2, 0.8]], labels: ['n', 'y'] }, /2 inputs but 1 output/], // biome-ignore format: short
  ['a line for an unknown request', 'application/x-own|abc', '0.1,0.9', unclear],
  ['a line without a request', undefined, '0.1,0.9', unclear],
  ['a list without a request', undefined, [0.1, 0.9], unclear],
  ['classes without a request', undefined, [good, bad], unclear],
  ['as many numbers as an unknown list has', { x: [[1, 2], [3, 4]] }, [0.2, 0.8], unclear], // biome-ignore format: short
  ['lines of an unknown text', 'text/plain|1 2\n2 1', { predictions: [{ score: 0.1 }, { score: 0.9 }] }, unclear],
])('nothing is indexed of %s, and a note says why', (_, request, reply, note, options = {}) => {
  const { found, notes } = rowsOf(request, reply, options);
  expect({ found, notes }).toEqual({ found: {}, notes: expect.stringMatching(note) });
});

test.each<[string, unknown, unknown]>([
  ['a class and a distance', '1,2', '1.0,5.2'],
  ['a short vector', [[1, 2, 3]], [[0.12, -0.5, 0.3, 0.9]]],
  ['numbers that are not together 1', { features: [1, 2] }, [0.9, 0.8]],
])('%s is no prediction', (_, request, reply) => {
  expect(rowsOf(request, reply).found).toEqual({});
  expect(Object.keys(rowsOf(request, reply, {}, { kind: 'classes' }).found)).toEqual(['']);
});

test.each<[string, unknown, unknown]>([
  ['an entity', { inputs: 'Ann' }, [{ entity_group: 'PER', score: 0.99, word: 'Ann', start: 0, end: 3 }]],
  ['a word', { inputs: 'x' }, [{ score: 0.5, token: 1, token_str: 'a', sequence: 'a x' }]],
  ['an object of an image', { inputs: 'x' }, [{ label: 'cat', score: 0.9, box: { xmin: 1 } }]],
  ['a long class', { inputs: 'x' }, { label: 'a'.repeat(99), score: 0.9 }],
])('the score of %s is no prediction', (_, request, reply) => {
  expect(rowsOf(request, reply).found).toEqual({});
  expect(rowsOf(request, reply, {}, { kind: 'texts' }).found).toEqual({ '': { text: expect.any(Array) } });
});

test('questions are answered by a text, which has a score', () => {
  const [question, context] = ['Who?', 'Ann is here.'];
  const answer = (text: string) => ({ score: 0.9, start: 0, end: 3, answer: text });
  const { found, capture } = rowsOf({ inputs: { question, context } }, answer('Ann'));
  expect(found).toEqual({ '': { value: 'Ann', scores: [0.9], classes: ['Ann'], text: expect.any(Array) } });
  expect(capture).toMatchObject({
    wireFormat: 'question-answering',
    conversation: {
      messages: [{ role: 'user', content: `${context}\n\n${question}` }],
      replies: [{ role: 'assistant', content: 'Ann' }],
    },
  });
  const several = { inputs: { question: [question, 'Where?'], context: [context, context] } };
  expect(Object.keys(rowsOf(several, [answer('Ann'), answer('here')]).found)).toEqual(['_0', '_1']);
});

test('large replies are divided in linear time', () => {
  const count = 20_000;
  const request = Array.from({ length: count }, (_, index) => `${index}`).join('\n');
  const timeOf = (reply: string): number => {
    const before = performance.now();
    rowsOf(request, reply);
    return performance.now() - before;
  };
  for (const cell of ['[0.1, 0.9]', '[0.1', ']', '[[[[', "['a'"]) {
    expect(timeOf(Array.from({ length: count }, () => cell).join(','))).toBeLessThan(5_000);
  }
});

// ---------------------------------------------------------------------------------------------------------- headers
// The first row of a reply in CSV: a header or a prediction, whatever the request was and with or without CSV_HEADER.

/** @param wanted the predictions, or words of the note that says why none is kept */
function check(requests: readonly unknown[], reply: unknown, csvHeader: boolean, wanted: object | string): void {
  for (const request of requests) {
    const { found, notes } = rowsOf(request ?? undefined, reply, { csvHeader });
    if (typeof wanted === 'object') expect({ request, found }).toEqual({ request, found: wanted });
    else expect({ request, found, notes }).toEqual({ request, found: {}, notes: expect.stringContaining(wanted) });
  }
}

const { known, unknown } = tables;
const all = ['age\n30\n40', ...known, ...unknown];

test.each(tables.headers as [string, object][])('%j begins with a header', (reply, kept) => {
  check(all, reply, true, kept);
  check(known, reply, false, '2 inputs but 3 outputs');
  check(['age\n30\n40', ...unknown], reply, false, 'begins with a header, and CSV_HEADER is not set');
});

test.each(tables.words as [string, object, object][])('%j may begin with one', (reply, kept, withoutSetting) => {
  check(all, reply, true, kept);
  check(unknown, reply, false, withoutSetting);
});

test.each(tables.others as [string, string | null, boolean, object | string][])(
  '%j in reply to %j with CSV_HEADER=%s',
  (reply, request, csvHeader, wanted) => check([request], reply, csvHeader, wanted),
);

test.each(tables.json as [object, object][])('the JSON %j', (reply, wanted) => {
  check(unknown.slice(1), reply, false, wanted);
});

test.each(['text/plain', 'text/html', 'application/x-own'])(
  'behind numeric rows, a sentence in %s is no class',
  (type) => {
    const rows = [{ instances: [[30, 2]] }, { features: [1, 2] }, [{ age: 30, job: 'clerk' }]];
    for (const request of ['30,2', 'x,2', ...rows]) {
      for (const reply of tables.sentences)
        check([request], `${type}|${reply}`, false, 'the reply is a text, not a class');
      for (const reply of tables.labels) expect(Object.keys(rowsOf(request, `${type}|${reply}`).found)).toEqual(['']);
    }
  },
);

test('a sentence in CSV is no class, unless the request has words without a number', () => {
  check([...unknown.slice(0, 5), '30,2'], 'Not ready yet.', false, 'the reply is a text, not a class');
  check(['hallo'], 'It is late.', false, { '': { value: 'It is late.' } });
  // A question and its answer are texts.
  check(['"Is the bus late today?",2'], 'It is late.', false, { '': { text: expect.any(Array) } });
});
