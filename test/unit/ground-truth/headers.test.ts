/** The first row of a reply in CSV: a header or a prediction, whatever the request was and with or without CSV_HEADER. */
import { rowsOf, values } from './rows-of.ts';

const known = ['30\n40', { instances: [[30], [40]] }, 'text/libsvm|0 1:2\n1 2:1'];
const unknown = [
  undefined,
  'application/x-parquet|PAR1',
  'application/x-npy|NUMPY',
  'application/x-recordio-protobuf|abc',
  'image/jpeg|abc',
  'text/plain|1 2; 2 1',
  'application/x-own|abc',
  { model: 'm', rows_at: 's3://bucket/key' },
];
const yes = { value: 'yes', scores: [0.2, 0.8], classes: ['no', 'yes'] };
const no = { value: 'no', scores: [0.9, 0.1], classes: ['no', 'yes'] };
const classes = { _0: yes, _1: no };
const words = values('yes', 'no');
const header = /header/;

describe.each<[string, object, object | RegExp, object | RegExp]>([
  // The reply, what is kept with CSV_HEADER, and without it: of requests whose rows are known, and of others.
  ['class_pred\nyes\nno', words, /3 outputs/, header],
  ['pred\n1.5\n2.5', values(1.5, 2.5), /3 outputs/, header],
  ['price\n1.5\n2.5', values(1.5, 2.5), /3 outputs/, header],
  ['price\n1.5\nnan', { _0: { value: 1.5 }, _1: { value: 'nan' } }, /3 outputs/, header],
  ['is_fraud\nTrue\nFalse', values('True', 'False'), /3 outputs/, header],
  ['rate\n"40%"\n"7%"', values('40%', '7%'), /3 outputs/, header],
  ['Predicted Label\nyes\nno', words, /3 outputs/, header],
  ['churn_score\n3\n4', values(3, 4), /3 outputs/, header],
  ['class_pred,no_proba,yes_proba\nyes,0.2,0.8\nno,0.9,0.1', classes, /3 outputs/, header],
  [',class_pred,no_proba,yes_proba\n0,yes,0.2,0.8\n1,no,0.9,0.1', classes, /3 outputs/, header],
  ['predicted_label,prob_no,prob_yes\nyes,0.2,0.8\nno,0.9,0.1', classes, /3 outputs/, header],
  ['predict,no,yes\nyes,0.2,0.8\nno,0.9,0.1', words, /3 outputs/, header],
  // Words without a sign.
  ['outcome\nyes\nno', words, /3 outputs/, values('outcome', 'yes', 'no')],
])('%j', (reply, kept, ofKnown, ofUnknown) => {
  const seen = (request: unknown, csvHeader: boolean) => rowsOf(request, reply, { csvHeader });
  const expectAll = (requests: unknown[], csvHeader: boolean, wanted: object | RegExp) => {
    for (const request of requests) {
      const { found, notes } = seen(request, csvHeader);
      if (wanted instanceof RegExp)
        expect({ found, notes }).toEqual({ found: {}, notes: expect.stringMatching(wanted) });
      else expect({ request, found }).toEqual({ request, found: wanted });
    }
  };
  test('with CSV_HEADER', () => expectAll(['age\n30\n40', ...known, ...unknown], true, kept));
  test('without it', () => {
    expectAll(known, false, ofKnown);
    expectAll(unknown, false, ofUnknown);
    expectAll(['age\n30\n40'], false, header);
  });
});

test.each<[string, unknown, boolean, object | RegExp]>([
  ['yes\nno', unknown[0], false, words],
  ['yes\nno', '30\n40', true, words],
  ['yes\nno', 'age\n30\n40', true, words],
  ['yes\nno', unknown[0], true, { '': { value: 'no' } }],
  ['high_score\nlow_score', unknown[1], false, values('high_score', 'low_score')],
  ['label_a\nprobable\nproblem', unknown[1], false, values('label_a', 'probable', 'problem')],
  ['0.1\n0.9', unknown[1], true, values(0.1, 0.9)],
  ['0\n1\n1', unknown[1], false, values(0, 1, 1)],
  ['0.0\n0.13\n0.87', unknown[1], false, values(0, 0.13, 0.87)],
  ['0\n0.13\n0.87', unknown[1], false, /may be a header of numbers/],
  ['0\n1\n1', unknown[1], true, /may be a header of numbers/],
  ['0\n1\n1', '30\n40', true, values(1, 1)],
  ['0.5\n0.1\n0.9', '30\n40', true, /3 outputs/],
  ['pred\n1.5', unknown[1], true, { '': { value: 1.5 } }],
  ['pred\n1.5', unknown[1], false, header],
  ['outcome\nyes', 'age\n30', false, /request begins with a header/],
  ['mean,0.1,0.9\n5,4,6\n7,6,8', unknown[1], true, /several cells/],
  ['setosa,0.9\nvirginica,0.8', unknown[1], true, /several cells/],
])('%j in reply to %j with CSV_HEADER=%s', (reply, request, csvHeader, wanted) => {
  const { found, notes } = rowsOf(request, reply, { csvHeader });
  if (wanted instanceof RegExp) expect({ found, notes }).toEqual({ found: {}, notes: expect.stringMatching(wanted) });
  else expect(found).toEqual(wanted);
});

test.each<[string, object, object]>([
  [
    'AutoGluon’s classes in JSON',
    { class_pred: { 0: 'yes', 1: 'no' }, no_proba: { 0: 0.2, 1: 0.9 }, yes_proba: { 0: 0.8, 1: 0.1 } },
    classes,
  ],
  ['of one row', { class_pred: { 0: 'yes' }, no_proba: { 0: 0.2 }, yes_proba: { 0: 0.8 } }, { '': yes }],
  ['a column of numbers', { price: { 0: 1.5, 1: 2.5 } }, values(1.5, 2.5)],
  ['a column of classes', { class: { 0: 0, 1: 1 } }, values(0, 1)],
  [
    'probabilities of classes',
    { probabilities: { 0: 0.3, 1: 0.7 } },
    { '': { scores: [0.3, 0.7], classes: ['0', '1'] } },
  ],
  ['Seldon’s rows', { data: { names: ['no', 'yes'], ndarray: [[0.2, 0.8], [0.9, 0.1]] } }, { _0: { scores: yes.scores, classes: yes.classes }, _1: { scores: no.scores, classes: no.classes } }], // biome-ignore format: short
  ['Seldon’s numbers', { data: { ndarray: [[1.5], [2.5]] }, meta: {} }, values(1.5, 2.5)],
  ['objects of an image', { normalized_boxes: [[0, 0, 1, 1]], classes: [1], scores: [0.9], labels: ['bus'] }, {}],
  ['a word of a text', { label: 'PER', word: 'Ann' }, {}],
])('the JSON of %s', (_, reply, wanted) => {
  for (const request of unknown.slice(1)) expect(rowsOf(request, reply).found).toEqual(wanted);
});
