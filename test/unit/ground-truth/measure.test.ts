import type { LabeledRow, LabelValue, Prediction } from '../../../src/core/contract/ground-truth.ts';
import { groundTruthSchema } from '../../../src/core/settings/ground-truth-setting.ts';
import { Random } from '../../../src/core/values/random.ts';
import type { TruthGroup } from '../../../src/ground-truth/measure/figures.ts';
import { measureTruth } from '../../../src/ground-truth/measure/measure.ts';
import { ScoreStore } from '../../../src/ground-truth/measure/score-store.ts';
import { textHashes } from '../../../src/ground-truth/texts.ts';

const row = (label: LabelValue, prediction: Prediction, more: Partial<LabeledRow> = {}): LabeledRow => ({
  ...{ id: 'i', endpoint: 'e', variant: 'A', second: Date.parse('2026-11-20T10:59:59Z') / 1000 },
  ...{ traceId: 'tr', timeMs: 0, line: 1, label, prediction, ...more },
});
const repeated = (count: number, make: (index: number) => LabeledRow) =>
  Array.from({ length: count }, (_, i) => make(i));
async function measured(rows: Iterable<LabeledRow>, settings: object = {}, options = {}) {
  async function* stream() {
    yield* rows;
  }
  return measureTruth(stream, groundTruthSchema.parse(settings), options);
}
const only = async (...args: Parameters<typeof measured>): Promise<TruthGroup> =>
  (await measured(...args)).groups[0] as TruthGroup;

/** Rows of two labels with predictions from 0 to 100, of which a third is on the wrong side. */
const percents = (write: (percent: number) => LabelValue = Number, no: LabelValue = 0, yes: LabelValue = 1) =>
  repeated(303, (i) => row(i % 101 >= 50 === i % 3 > 0 ? yes : no, { value: write(i % 101) }));
const signed = percents((percent) => `${percent}%`);
const ofWords = percents(Number, 'no', 'yes');
/** Labels of two values, and predictions of some whole numbers. */
const whole = (labels: [LabelValue, LabelValue], from: number, different: number) =>
  repeated(300, (i) => row(labels[i % 2] as LabelValue, { value: from + (i % different) }));
const many = 'labels are more than 20 different numbers';
const words = 'labels are words, 2 different';
const [two, three] = [2, 3].map((count) => `labels have ${count} different values`) as [string, string];
const guess = ', and predictions up to 100 are taken for percentages: "kind":"numbers" in GROUND_TRUTH says otherwise';

test.each<[string, string, string, LabeledRow[], object?]>([
  ['words', 'classes', words, repeated(9, (i) => row(i % 2 ? 'cat' : 'dog', { value: 'cat' }))],
  ['flags', 'classes', two, repeated(9, (i) => row(i % 2, { value: 0.3 }))],
  ['fractions', 'numbers', 'labels are numbers that are not whole', [row(1.5, { value: 2 })]],
  ['prices', 'numbers', many, repeated(99, (i) => row(i * 1000, { value: 5000 }))],
  ['stars', 'numbers', 'predictions are numbers that are not whole', repeated(9, (i) => row(i % 5, { value: 3.7 }))],
  ['replies', 'texts', 'the replies are texts', [row('Paris', { text: textHashes('Paris') })]],
  ['a setting', 'texts', 'GROUND_TRUTH says so', [row('1', { value: 1 })], { kind: 'texts' }],
  // A few odd labels or predictions do not change what all others are.
  ['an odd label', 'numbers', many, repeated(99, (i) => row(i === 7 ? 'n/a' : i, { value: i }))],
  ['an odd fraction', 'classes', three, repeated(99, (i) => row(i === 7 ? 0.5 : i % 2, { value: 1 }))],
  ['an odd word', 'classes', three, repeated(99, (i) => row(i === 7 ? 'x' : i % 2, { value: 0.3 }))],
  ['an odd prediction', 'classes', two, repeated(99, (i) => row(i % 2, { value: i === 7 ? 1e9 : 0.5 }))],
  // Probabilities from 0 to 100.
  ['percentages', 'classes', `${two}${guess}`, percents()],
  ['fractions of percent', 'classes', `${two}${guess}`, percents((percent) => percent * 0.99)],
  ['percentages of words', 'classes', `${words}${guess}`, ofWords],
  ['signed percentages', 'classes', two, signed],
  ['said percentages', 'classes', 'GROUND_TRUTH says so', percents(), { kind: 'classes', threshold: 50 }],
  ['said numbers', 'numbers', 'GROUND_TRUTH says so', percents(), { kind: 'numbers' }],
  // Whole numbers that are none.
  ['named classes', 'classes', two, percents(), { classes: ['0', '1', '2'] }],
  ['two classes', 'classes', two, whole([0, 1], 0, 2)],
  ['ratings, two of them as labels', 'classes', two, whole([1, 5], 1, 5)],
  ['ages, two of them as labels', 'classes', two, whole([34, 51], 20, 60)],
  ['few numbers', 'classes', two, whole([0, 1], 0, 20)],
  ['scores beyond 100', 'classes', two, whole([0, 1], 300, 550)],
  ['ages', 'numbers', many, repeated(99, (i) => row(i, { value: i + 1 }))],
])('%s: takes %s since %s', async (_, kind, why, ...[rows, settings]) => {
  expect(await measured(rows, settings)).toMatchObject({ kind, why });
});

const noLabel = (rows: number) => `${rows} of 300 predictions are of classes that no label has`;
const asked = '; if they are percentages, set "threshold":50 in GROUND_TRUTH';
const below = 'the AUC is clearly below 0.5: the positive class may be the other one ("positive" in GROUND_TRUTH)';
const unknown = 'predictions are probabilities, and the positive class 1 is no label: set "positive" in GROUND_TRUTH';
const ofOther = repeated(300, (i) => row(1 + (i % 2), { value: 0.2 + 0.5 * (i % 2) + (i % 7) / 50 }));
/** Three classes, and predictions of which some are of a fourth. */
const odd = (count: number) => repeated(300, (i) => row(`${i % 3}`, { value: i < count ? 'x' : `${i % 3}` }));
const beside = repeated(300, (i) => row(i % 2, { value: i % 2, scores: [1 - (i % 2)], classes: ['1'] }));

test.each<[string, LabeledRow[], object, string, number | null, string?]>([
  ['percentages are scores', percents(), {}, 'accuracy', 202 / 303],
  ['from 0 to 1', percents(), {}, 'auc', 0.667],
  ['with a sign as well', signed, {}, 'accuracy', 202 / 303],
  ['of two words, it is not guessed which', ofWords, {}, 'accuracy', null, unknown],
  ['but said', ofWords, { positive: 'yes' }, 'accuracy', 202 / 303],
  ['few numbers may be anything', whole([0, 1], 5, 20), {}, 'accuracy', 0, noLabel(300) + asked],
  ['until a threshold says that they are percentages', whole([0, 1], 5, 20), { threshold: 15 }, 'accuracy', 0.5],
  ['most predictions are of no class', odd(160), {}, 'accuracy', 140 / 300, noLabel(160)],
  ['some are', odd(140), {}, 'accuracy', 160 / 300],
  ['one label, and the other class', repeated(300, () => row(0, { value: 1 })), {}, 'accuracy', 0],
  ['probabilities of the other class', ofOther, {}, 'accuracy', 0, below],
  ['and their AUC', ofOther, {}, 'auc', 0, below],
  ['named', ofOther, { positive: '2' }, 'auc', 1],
  ['few of them', ofOther.slice(0, 4), {}, 'auc', 0],
  ['a score that is reversed', beside, {}, 'auc', 0, below],
  ['beside a class that is not', beside, {}, 'accuracy', 1],
])('%s', async (_, rows, settings, name, ...[value, why]) => {
  const { measures } = await only(rows, settings);
  expect([measures[name]?.value, measures[name]?.why]).toEqual([value && expect.closeTo(value, 2), why]);
});

test.each([{ by: 'hour' }, { by: 'variant' }, { variant: 'B' }] as const)('groups have one kind: %j', async (query) => {
  const second = (i: number) => Date.parse('2026-11-20T10:00:00Z') / 1000 + i * 60;
  const variant = (i: number) => (i < 60 ? 'A' : 'B');
  const all = repeated(90, (i) => row(i < 60 ? i : 2, { value: i }, { second: second(i), variant: variant(i) }));
  const { kind, groups } = await measured(all, {}, query);
  expect([kind, groups.every(({ measures }) => 'mae' in measures)]).toEqual(['numbers', true]);
});

test('a probability counts as the positive class from the threshold on', async () => {
  const yes = [0.7, 0.69].map((value) => row('yes', { value }));
  const rows = [...yes, ...[0.1, 1, 0].map((value) => row('no', { value }))];
  const { threshold, groups } = await measured(rows, { positive: 'yes', threshold: 0.7 });
  expect(threshold).toBe(0.7);
  expect(groups[0]?.classes?.confusion).toEqual([
    { label: 'no', predicted: 'no', count: 2 },
    { label: 'no', predicted: 'yes', count: 1 },
    { label: 'yes', predicted: 'no', count: 1 },
    { label: 'yes', predicted: 'yes', count: 1 },
  ]);
  expect(groups[0]?.measures.precision).toMatchObject({ value: 0.5 });
  // 0.7 and 0.69 against 0.1, 1 and 0: four of six pairs are in order.
  expect(groups[0]?.measures.auc?.value).toBeCloseTo(4 / 6, 12);
});

test('scores of two classes that are no probabilities have no threshold: the larger one counts', async () => {
  const rows = [row('1', { scores: [-2, 0.3] }), row('0', { scores: [4, 0.9] }), row('0', { scores: [0.8, 0.2] })];
  const counts = (await only(rows)).classes?.confusion?.map((one) => Object.values(one).join(' '));
  expect(counts).toEqual(['0 0 2', '1 1 1']);
});

test('an odd label with probabilities is not compared, and a third whole number is a class', async () => {
  const rows = repeated(100, (i) => row(i % 2 ? 1 : 0, { value: i % 2 ? 0.9 : 0.2 + 0.006 * i }));
  const plain = await only(rows);
  expect(plain.measures).toMatchObject({ accuracy: { value: 0.75 }, recall: { value: 1 }, auc: { value: 1 } });
  const others = [row('unknown', { value: 0.1 }), row('unknown', { value: 0.9 }), row(0.5, { value: 0.5 })];
  const odd = await only([...others.slice(0, 1), ...rows, ...others.slice(1)]);
  expect(odd).toEqual({ ...plain, rows: 103, compared: 100, notCompared: { 'the label is none of the two': 3 } });
  const words = rows.map(({ label, prediction }) => row(label ? 'yes' : 'no', prediction));
  const said = await only([...words, row('n/a', { value: 0.1 })], { positive: 'yes' });
  expect(said.measures).toEqual(plain.measures);
  expect((await measured([...rows, row(2, { value: 0.9 })])).kind).toBe('numbers');
});

test('a score next to a label is that of the label', async () => {
  const scored = (label: string, value: string, score: number) =>
    row(label, { value, scores: [score], classes: [value] });
  const right = [scored('good', 'good', 0.9), scored('bad', 'bad', 0.8)];
  const two = [...right, scored('bad', 'good', 0.6), scored('good', 'bad', 0.7)];
  // Scores of `good`: 0.9, 0.3 against 0.2, 0.6.
  expect((await only(two, { positive: 'good' })).measures.auc?.value).toBeCloseTo(0.75, 12);
  const three = await only([...two, scored('ugly', 'ugly', 0.9)]);
  expect(three.measures.auc?.why).toBe('the replies have the score of the predicted class alone');
});

const scores = [0.2, 0.8];
const bab = (make: (isB: boolean) => LabeledRow) => [true, false, true].map(make);
const named = (isB: boolean) => (isB ? 'b' : 'a');

test.each<[string, LabeledRow[], object, number]>([
  ['the reply', bab((isB) => row(named(isB), { scores, classes: ['a', 'b'] })), {}, 2 / 3],
  ['the settings', bab((isB) => row(named(isB), { scores })), { classes: ['a', 'b'] }, 2 / 3],
  ['none, so numbers', bab((isB) => row(isB, { scores })), {}, 2 / 3],
  ['none, and a threshold', bab((isB) => row(isB, { scores })), { threshold: 0.9 }, 1 / 3],
])('scores have the names of %s', async (_, rows, settings, accuracy) => {
  expect((await only(rows, settings)).measures.accuracy?.value).toBeCloseTo(accuracy, 12);
});

test('scores of other classes are counted', async () => {
  const mixed = await only([
    row('a', { scores: [0.6, 0.4], classes: ['a', 'b'] }),
    row('b', { scores: [0.7, 0.3], classes: ['b', 'a'] }),
    row('b', { scores: [0.1, 0.2, 0.7], classes: ['a', 'b', 'c'] }),
  ]);
  expect(mixed.classes?.scored).toEqual({ rows: 2, used: 2, others: 1 });
  const why = 'of 3 rows, 1 have scores of other classes than a, b';
  expect(mixed.measures.auc).toEqual({ value: null, low: null, high: null, why });
});

test('a probability is the same score alone, as one of two, by name, and with the class', async () => {
  const random = new Random(4);
  const drawn = repeated(400, (i) => row(i % 2, { value: Number((random.next() * (i % 2 ? 1 : 0.8)).toFixed(4)) }));
  const forms: ((p: number) => Prediction)[] = [
    (p) => ({ value: p }),
    (p) => ({ scores: [1 - p, p] }),
    (p) => ({ scores: [p, 1 - p], classes: ['1.0', 'false'] }),
    (p) => ({ value: p < 0.5 ? 0 : 1, scores: [p], classes: ['1'] }),
    (p) => ({ value: p < 0.5 ? '0' : '1', scores: [p < 0.5 ? 1 - p : p], classes: [p < 0.5 ? '0' : '1'] }),
  ];
  const plain = await only(drawn);
  const mixed = drawn.map((one, i) => row(one.label, forms[i % 5]?.(one.prediction.value as number) as Prediction));
  expect((await only(mixed)).measures.auc?.value).toBeCloseTo(plain.measures.auc?.value as number, 9);
  expect((await only(mixed)).measures.accuracy).toEqual(plain.measures.accuracy);
  expect((await only(mixed)).classes?.scored).toEqual({ rows: 400, used: 400, others: 0 });
});

test('classes that look like numbers are classes, whatever is predicted', async () => {
  const rows = [
    row('007', { value: 7 }),
    row('0.10', { value: 0.1 }),
    row('1E2', { value: '1E2' }),
    row('1', { value: true }),
  ];
  const { measures, classes } = await only(rows, { kind: 'classes' });
  expect(measures.accuracy?.value).toBe(0.5);
  expect(classes?.confusion).toContainEqual({ label: '0.10', predicted: '0.1', count: 1 });
});

test('groups count the rows that are compared', async () => {
  const rows = repeated(600, (i) =>
    row(i % 40 === 0 ? 'unknown' : i % 2, { value: 0.3 + 0.4 * (i % 2) }, { groups: [i % 3 ? 'old' : 'young'] }),
  );
  const { compared, groups } = await only(rows, { groups: ['age'] });
  expect(compared).toBe(585);
  expect(groups?.age?.map(({ value, rows: count }) => `${value} ${count}`)).toEqual(['old 390', 'young 195']);
});

const few = 'a few rows decide it';
const below30 = 'with fewer than 30 rows, a few rows decide it';
const below1000 = 'with fewer than 1000 rows, a few rows decide it';
const large = 'the numbers are too large to compute with';
const normal = new Random(8);
/** Errors of a normal distribution, with some that are larger. */
const errors = (count: number, larger = 0, times = 1) =>
  repeated(count, (i) => row(i + 0.5, { value: i + 0.5 + normal.normal() * (i < larger ? times : 1) }));

test.each<[string, LabeledRow[], (string | undefined)[]]>([
  ['29 rows', errors(29), [below1000, below1000, below1000, below30]],
  ['999 rows', errors(999), [below1000, below1000, below1000, undefined]],
  ['1,000 rows', errors(1000), [undefined, undefined, undefined, undefined]],
  ['10 errors of 5 times the size', errors(1000, 10, 5), [undefined, undefined, undefined, undefined]],
  ['10 of 20 times the size', errors(1000, 10, 20), [undefined, few, few, undefined]],
  ['10 of 100 times the size', errors(1000, 10, 100), [few, few, few, undefined]],
  ['one whose powers overflow', [row(1e150, { value: 1 }), ...errors(200)], [below1000, below1000, below1000, large]],
])('MAE, RMSE, R² and bias have an interval where many rows decide them: %s', async (_, rows, whys) => {
  const { mae, rmse, r2, bias } = (await only(rows, { kind: 'numbers' })).measures;
  const found = [mae, rmse, r2, bias].map((one) => [one?.low === null, one?.why]);
  expect(found).toEqual(whys.map((why) => [why !== undefined, why]));
});

test('every figure that is not defined says why', async () => {
  const one = await only([row('a', { value: 'b' })]);
  const whys = one.classes?.each.map(({ precision, recall }) => `${precision.why}, ${recall.why}`);
  expect(whys).toEqual(['no prediction is a, undefined', 'undefined, no label is b']);
  expect(one.measures.auc?.why).toBe('the replies have no probabilities');
  expect((await only([row(1, { value: 0.2 }), row(1, { value: 0.3 })])).measures.auc?.why).toBe('all labels are 1');
  expect((await only([row(1.5, { value: 2 })])).measures.r2?.why).toBe('R² needs two rows');
  const equal = await only(repeated(40, () => row(2.5, { value: 3.5 })));
  expect([equal.measures.r2?.why, equal.measures.mae?.why]).toEqual(['all labels are equal', below1000]);
  const huge = await only(repeated(40, (i) => row(1e300 * (i + 0.5), { value: -1e300 })));
  expect(huge.measures.rmse).toMatchObject({ value: null, why: 'the numbers are too large to compute with' });
  expect((await measured([])).groups).toEqual([]);
});

const text: Prediction = { text: ['a', 'b'] };
const ofNumbers = [row(1.5, { value: 1 }), row('many', { value: 2 }), row(2, { value: 'two' }), row(3, text)];

test.each<[string, LabeledRow[], number, Record<string, number>]>([
  ['numbers', ofNumbers, 1, { 'the label is no number': 1, 'the prediction is no number': 2 }],
  ['classes', [row('a', { value: 'a' }), row('a', text)], 1, { 'the prediction is a text': 1 }],
  ['classes', [row('a', text)], 0, { 'the prediction is a text': 1 }],
])('what cannot be compared is counted by its reason: %s', async (kind, rows, compared, notCompared) => {
  const found = await only(rows, { kind });
  expect(found).toMatchObject({ rows: rows.length, compared, notCompared });
  if (compared === 0) expect(found.measures.f1?.why).toBe('no row could be compared');
});

test('texts agree exactly, or but for case, spaces and outer punctuation', async () => {
  const texts = [
    row('Paris', { text: textHashes('Paris') }),
    row('Paris', { text: textHashes(' paris.') }),
    row('Paris', { text: textHashes('Rome') }),
    row(7, { value: 7 }),
  ];
  const { measures, compared } = await only(texts, { kind: 'texts' });
  expect([compared, measures.exact?.value, measures.normalized?.value]).toEqual([4, 0.5, 0.75]);
});

const at = (time: string, variant: string, more = {}) =>
  row(1, { value: 1 }, { second: Date.parse(`2026-11-${time}Z`) / 1000, variant, ...more });
const window = { fromMs: Date.parse('2026-11-20T10:00:01Z'), toMs: Date.parse('2026-11-21T00:00:00Z') };

test.each<[object, Record<string, number>]>([
  [{}, { all: 3 }],
  [{ by: 'hour' }, { '2026-11-20T10': 1, '2026-11-20T23': 1, '2026-11-21T00': 1 }],
  [{ by: 'day' }, { '2026-11-20': 2, '2026-11-21': 1 }],
  [{ by: 'variant' }, { A: 2, B: 1 }],
  [{ variant: 'B' }, { all: 1 }],
  [window, { all: 1 }],
])('groups rows by %j, without labels for scorers', async (query, expected) => {
  const answers = [at('21T00:00:00', 'B'), at('20T23:59:59', 'A'), at('20T10:00:00', 'A')];
  const rows = [...answers, at('20T10:30:00', 'A', { scorer: 'safety' })];
  const { groups } = await measured(rows, {}, query);
  expect(Object.fromEntries(groups.map((one) => [one.group, one.rows]))).toEqual(expected);
});

test('differences of groups are those to the most frequent value, with their intervals', async () => {
  const rows = repeated(1000, (i) => {
    const label = i % 2;
    // For the young, one positive in two is found; for the old, all are.
    const young = i % 3 === 0;
    return row(label, { value: label === 1 && (!young || i % 4 === 1) ? 1 : 0 }, { groups: [young ? 'young' : 'old'] });
  });
  const [old, young] = (await only(rows, { groups: ['age'] })).groups?.age ?? [];
  expect([old?.value, old?.truePositiveRate.value, old?.difference]).toEqual(['old', 1, undefined]);
  expect(young?.difference?.truePositiveRate.value).toBeCloseTo(-0.5, 2);
  expect(young?.difference?.truePositiveRate.high).toBeLessThan(-0.4);
  const noPositive = [row('a', { value: 'b' }, { groups: ['x'] }), row('a', { value: 'a' })];
  const nobody = await only(noPositive, { groups: ['age'] });
  const whys = nobody.groups?.age?.map(({ value, truePositiveRate }) => `${value} ${truePositiveRate.why}`);
  expect(whys).toEqual(['(none) no label is 1', 'x no label is 1']);
});

test('values that callers make up take bounded memory, and classes beyond the limit are said', async () => {
  const rows = repeated(3000, (i) => row('a', { value: i % 2 ? 'a' : `made up ${i}` }, { groups: [`g${i}`] }));
  const { measures, groups } = await only(rows, { groups: ['x'] });
  expect(measures.accuracy?.value).toBe(0.5);
  expect(measures.f1?.why).toBe('there are more than 1000 classes');
  expect(groups?.x?.length).toBe(51);
  expect(groups?.x?.[0]).toMatchObject({ value: '(other)', rows: 2950 });
});

test('beyond its room, a store keeps a random sample', () => {
  const store = new ScoreStore({ left: 100 });
  for (let i = 0; i < 40_000; i += 1) store.add(['a'], [i], 0);
  expect([store.added, store.rows]).toEqual([40_000, 10_000]);
  const kept = store.values.subarray(0, store.rows);
  expect(Math.abs(kept.reduce((sum, value) => sum + value, 0) / 10_000 - 20_000)).toBeLessThan(500);
  expect(new Set(kept).size).toBe(10_000);
});
