/** The figures of true answers, with scikit-learn and pandas as the reference. */
import { spawnSync } from 'node:child_process';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import type { LabeledRow, LabelValue, Prediction } from '../../src/core/contract/ground-truth.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { groundTruthSchema } from '../../src/core/settings/ground-truth-setting.ts';
import { Random } from '../../src/core/values/random.ts';
import type { Figure, TruthGroup } from '../../src/ground-truth/measure/figures.ts';
import { measureTruth } from '../../src/ground-truth/measure/measure.ts';

const random = new Random(19);
const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;
const rowsOf = (
  each: { label: LabelValue; prediction: Prediction; groups?: string[]; variant?: string }[],
): LabeledRow[] =>
  each.map((one, index) => {
    const place = { id: `i${index}`, endpoint: 'e', variant: 'A', traceId: `tr-${index}`, timeMs: 0, line: index + 1 };
    return { ...place, second: 1_795_000_000 + index * 60, ...one };
  });
async function* stream(rows: readonly LabeledRow[]) {
  yield* rows;
}

/** What is near for scikit-learn: 1e-9, relative to numbers above 1. */
function same(figure: Figure | undefined, theirs: number | null | undefined, what: string): void {
  const [own, other] = [figure?.value ?? null, theirs ?? null];
  const far =
    own === null || other === null ? own !== other : Math.abs(own - other) > 1e-9 * Math.max(1, Math.abs(other));
  if (far) throw new Error(`${what}: ${own} (${figure?.why}) and scikit-learn's ${other}`);
  if (own === null) expect(figure?.why).toBeTruthy();
  else if (figure?.low !== null && figure?.high !== null) {
    expect([what, Number(figure?.low) <= own && own <= Number(figure?.high)]).toEqual([what, true]);
  }
}

interface Reference {
  accuracy: number;
  each: Record<string, [number | null, number | null, number | null, number]>;
  names: string[];
  confusion: number[][];
  macro: number[];
  weighted: number[];
  auc?: number | null;
  aucs?: (number | null)[];
  [figure: string]: unknown;
}

/** Runs scikit-learn once for all tests: it takes seconds to start. */
async function reference(cases: readonly object[]): Promise<Reference[]> {
  const { python } = await defaultPythonEnvironment();
  const script = packagePath('test', 'helpers', 'truth_figures.py');
  const run = spawnSync(python, [script], { input: JSON.stringify(cases), maxBuffer: 2 ** 28, encoding: 'utf8' });
  if (run.status !== 0) throw new Error(run.stderr);
  return JSON.parse(run.stdout) as Reference[];
}

/** The same class as files and replies write it. */
const written = (name: string): LabelValue => {
  if (!/^[01]$|^[2-9]$/.test(name)) return name;
  const flags = name === '1' ? [true, 'True'] : name === '0' ? [false] : [];
  return pick([name, Number(name), `${name}.0`, ` ${name}`, ...flags]);
};

interface ClassCase {
  what: string;
  rows: LabeledRow[];
  sent: { kind: string; labels: string[]; predictions: string[]; [more: string]: unknown };
  settings: object;
  /** The positive class, if there are two. */
  positive: string | null;
}

function classCase(
  what: string,
  names: string[],
  n: number,
  options: { labels?: string[]; predicted?: string[]; skew?: number; accuracy?: number } = {},
): ClassCase {
  const { labels: only = names, predicted = names, skew = 1, accuracy = 0.7 } = options;
  const labels = Array.from({ length: n }, () => only[Math.floor(random.next() ** skew * only.length)] as string);
  const predictions = labels.map((label) =>
    random.next() < accuracy && predicted.includes(label) ? label : pick(predicted),
  );
  const rows = rowsOf(
    labels.map((label, i) => ({ label: written(label), prediction: { value: written(predictions[i] as string) } })),
  );
  const isBinary = new Set([...labels, ...predictions]).size <= 2 && [...labels, ...predictions].includes('1');
  const sent = { kind: 'classes', labels, predictions };
  return { what, rows, sent, settings: { kind: 'classes' }, positive: isBinary ? '1' : null };
}

/** Two classes with the probability of the positive one, as `form` writes it. */
function probabilityCase(
  what: string,
  n: number,
  share: number,
  form: 'bare' | 'pair' | 'beside' | 'mixed',
  digits: number,
): ClassCase {
  const truth = Array.from({ length: n }, () => (random.next() < share ? '1' : '0'));
  const score = truth.map((label) =>
    Number((1 / (1 + Math.exp(-(random.normal() + (label === '1' ? 1 : -1))))).toFixed(digits)),
  );
  const predictions = score.map((p) => (p >= 0.5 ? '1' : '0'));
  const written = {
    bare: (p: number): Prediction => ({ value: p }),
    pair: (p: number): Prediction => ({ scores: [1 - p, p] }),
    beside: (p: number, value: string): Prediction => ({ value: Number(value), scores: [p], classes: ['1'] }),
  };
  const prediction = (p: number, value: string): Prediction =>
    written[form === 'mixed' ? pick(['bare', 'pair', 'beside'] as const) : form](p, value);
  const predicted = (i: number) => prediction(score[i] as number, predictions[i] as string);
  const rows = rowsOf(truth.map((label, i) => ({ label: Number(label), prediction: predicted(i) })));
  const known = new Set([...truth, ...predictions]).has('1');
  const sent = { kind: 'classes', labels: truth, predictions, score, positive: '1' };
  return { what, rows, sent, settings: {}, positive: known ? '1' : null };
}

function scoresCase(what: string, names: string[], n: number, only = names): ClassCase {
  const labels = Array.from({ length: n }, () => pick(only));
  const scores = labels.map((label) => {
    const weights = names.map((name) => Math.exp(random.normal() + (name === label ? 1.5 : 0)));
    const total = weights.reduce((a, b) => a + b, 0);
    return weights.map((weight) => weight / total);
  });
  const predictions = scores.map((row) => names[row.indexOf(Math.max(...row))] as string);
  const rows = rowsOf(
    labels.map((label, i) => ({ label, prediction: { scores: scores[i] as number[], classes: names } })),
  );
  const sent = { kind: 'classes', labels, predictions, scores, columns: names };
  return { what, rows, sent, settings: {}, positive: null };
}

const many = Array.from({ length: 20 }, (_, k) => `class ${String(k).padStart(2, '0')}`);

const classCases = [
  classCase('two classes', ['0', '1'], 400),
  classCase('two rare', ['0', '1'], 1000, { skew: 8, accuracy: 0.9 }),
  classCase('two as words', ['no', 'yes'], 200),
  classCase('three', ['0', '1', '2'], 300),
  classCase('twenty, imbalanced', many, 2000, { skew: 3 }),
  classCase('a class without labels', ['a', 'b', 'c'], 100, { labels: ['a', 'b'] }),
  classCase('a class without predictions', ['a', 'b', 'c'], 100, { predicted: ['a', 'b'] }),
  classCase('disjoint', ['a', 'b', 'c', 'd'], 50, { labels: ['a', 'b'], predicted: ['c', 'd'] }),
  classCase('all right', ['a', 'b', 'c'], 60, { accuracy: 1 }),
  classCase('a single row, right', ['1'], 1),
  classCase('a single row, wrong', ['0', '1'], 1, { labels: ['1'], predicted: ['0'] }),
  classCase('constant labels', ['0', '1'], 80, { labels: ['0'] }),
  classCase('constant predictions', ['0', '1'], 80, { predicted: ['1'] }),
  probabilityCase('probabilities', 500, 0.4, 'bare', 12),
  probabilityCase('rare, with ties', 2000, 0.02, 'bare', 2),
  probabilityCase('many ties', 300, 0.5, 'pair', 1),
  probabilityCase('a score beside the class', 300, 0.3, 'beside', 6),
  probabilityCase('replies of several forms', 600, 0.4, 'mixed', 6),
  classCase('codes that look like numbers', ['007', '7', '1E2', '100', '0.10', '0.1'], 400),
  probabilityCase('one label class with probabilities', 40, 1, 'bare', 6),
  probabilityCase('tiny probabilities', 300, 0.5, 'pair', 15),
  scoresCase('three with scores', ['a', 'b', 'c'], 400),
  scoresCase('twenty with scores', many, 1500),
  scoresCase('a class of scores without labels', ['a', 'b', 'c'], 200, ['a', 'b']),
];

type Pairs = (readonly [label: number, prediction: number])[];
const numbers = (n: number, label: () => number, error: () => number): Pairs =>
  Array.from({ length: n }, () => {
    const value = label();
    return [value, value + error()] as const;
  });
/** Labels and errors of normal distributions. */
const normal = (n: number, [mean, deviation]: [number, number], [bias, spread]: [number, number]): Pairs =>
  numbers(
    n,
    () => mean + deviation * random.normal(),
    () => bias + spread * random.normal(),
  );
const exponential = (scale: number) => () => Math.exp(scale * random.normal());
const overflowing = () => (random.next() < 0.01 ? 1e150 : random.normal());
const numberCases = Object.entries<Pairs>({
  ordinary: normal(1000, [20, 5], [0, 1]),
  biased: normal(500, [0, 1], [3, 1]),
  'worse than the mean': normal(300, [0, 1], [0, 10]),
  huge: normal(300, [0, 1e12], [0, 1e10]),
  tiny: normal(300, [0, 1e-12], [0, 1e-13]),
  'far from zero': normal(2000, [1e9, 1], [0, 0.1]),
  'a drift': Array.from({ length: 5000 }, (_, i) => [i + random.normal(), i + random.normal()] as const),
  'heavy tails': numbers(1000, exponential(3), exponential(2)),
  'powers that overflow': numbers(300, overflowing, () => random.normal()),
  'a single row': [[1.5, 2]],
  'two rows': normal(2, [2, 1], [0, 1]),
  'constant labels': normal(50, [2.5, 0], [0, 1]),
  'all right': normal(50, [0, 1], [0, 0]),
  'constant labels, all right': normal(50, [2.5, 0], [0, 0]),
});
const sentNumbers = ([, pairs]: (typeof numberCases)[number]) => ({
  kind: 'numbers',
  labels: pairs.map(([label]) => label),
  predictions: pairs.map(([, value]) => value),
});

const drawn = Array.from({ length: 3000 }, () => {
  const [value, variant, label] = [pick(['18-30', '31-60', '61+']), pick(['A', 'A', 'B']), pick(['0', '1'])];
  const accuracy = value === '61+' ? 0.6 : 0.9;
  return { value, variant, label, prediction: random.next() < accuracy ? label : pick(['0', '1']) };
});
const columns = (by: 'value' | 'variant') => drawn.map((one) => [one[by], one.label, one.prediction]);
const groupCases = (['value', 'variant'] as const).map((by) => ({ kind: 'groups', rows: columns(by), positive: '1' }));

let theirs: { classes: Reference[]; numbers: Reference[]; groups: Reference[] };
beforeAll(async () => {
  const [ofClasses, ofNumbers] = [classCases.map(({ sent }) => sent), numberCases.map(sentNumbers)];
  const all = await reference([...ofClasses, ...ofNumbers, ...groupCases]);
  theirs = { classes: all.splice(0, ofClasses.length), numbers: all.splice(0, ofNumbers.length), groups: all };
});

test('figures of classes are those of scikit-learn', async () => {
  for (const [index, { what, rows, settings, positive, sent }] of classCases.entries()) {
    const expected = theirs.classes[index] as Reference;
    const { groups, kind } = await measureTruth(() => stream(rows), groundTruthSchema.parse(settings));
    const [found] = groups as [TruthGroup];
    expect([what, kind, groups.length, found.compared]).toEqual([what, 'classes', 1, rows.length]);
    const { measures, classes } = found;
    expect([what, classes?.positive]).toEqual([what, positive]);
    same(measures.accuracy, expected.accuracy, `${what}: accuracy`);
    for (const [at, name] of (['precision', 'recall', 'f1'] as const).entries()) {
      for (const [own, [...values]] of Object.entries(expected.each)) {
        same(
          classes?.each.find((one) => one.class === own)?.[name],
          values[at] as number | null,
          `${what}: ${name} of ${own}`,
        );
      }
      same(classes?.macro[name], expected.macro[at], `${what}: macro ${name}`);
      same(classes?.weighted[name], expected.weighted[at], `${what}: weighted ${name}`);
      const headline = positive === null ? expected.macro[at] : expected.each[positive]?.[at];
      same(measures[name], headline as number | null, `${what}: ${name}`);
    }
    expect(classes?.each.map((one) => [one.class, one.support]).toSorted()).toEqual(
      Object.entries(expected.each)
        .map(([name, values]) => [name, values[3]])
        .toSorted(),
    );
    const table = expected.names.flatMap((label, i) =>
      expected.names.map((predicted, j) => ({ label, predicted, count: expected.confusion[i]?.[j] as number })),
    );
    const byName = (a: { label: string; predicted: string }, b: typeof a) =>
      `${a.label} ${a.predicted}` < `${b.label} ${b.predicted}` ? -1 : 1;
    expect(classes?.confusion.toSorted(byName)).toEqual(table.filter(({ count }) => count > 0).toSorted(byName));
    if (expected.auc === undefined) expect(measures.auc?.why).toBe('the replies have no probabilities');
    else same(measures.auc, expected.auc, `${what}: AUC`);
    for (const [k, area] of (expected.aucs ?? []).entries()) {
      const name = (sent.columns as string[])[k];
      const own = classes?.each.find((one) => one.class === name);
      if (own !== undefined) same(own.auc, area, `${what}: AUC of ${name}`);
    }
  }
});

test('figures of numbers are those of scikit-learn and pandas', async () => {
  for (const [index, [what, pairs]] of numberCases.entries()) {
    const rows = rowsOf(
      pairs.map(([label, value]) => ({ label: pick([label, String(label)]), prediction: { value } })),
    );
    const { kind, groups } = await measureTruth(() => stream(rows), groundTruthSchema.parse({ kind: 'numbers' }));
    expect([what, kind]).toEqual([what, 'numbers']);
    for (const name of ['mae', 'rmse', 'r2', 'bias']) {
      const [own, other] = [groups[0]?.measures[name], theirs.numbers[index]?.[name] as number | null];
      same(own, other, `${what}: ${name}`);
      // The errors of small numbers are small as well.
      if (other !== null && other !== 0 && own?.value != null)
        expect(Math.abs(own.value / other - 1)).toBeLessThan(1e-9);
    }
  }
});

test('rates by variant and by column are those of pandas', async () => {
  const rows = rowsOf(
    drawn.map(({ value, prediction, ...one }) => ({
      ...one,
      prediction: { value: Number(prediction) },
      groups: [value],
    })),
  );
  const settings = groundTruthSchema.parse({ groups: ['age_group'] });
  const [byValue, byVariant] = theirs.groups as [Reference, Reference];
  const { groups } = await measureTruth(() => stream(rows), settings, { by: 'variant' });
  expect(groups.map(({ group }) => group)).toEqual(['A', 'B']);
  for (const { group, measures } of groups)
    same(measures.accuracy, (byVariant.accuracy as unknown as Record<string, number>)[group], group);
  const [all] = (await measureTruth(() => stream(rows), settings)).groups;
  const found = all?.groups?.age_group ?? [];
  expect(found.length).toBe(3);
  const rates = (name: string) => byValue[name] as Record<string, number>;
  const first = found[0]?.value as string;
  for (const { value, selectionRate, truePositiveRate, difference } of found) {
    same(selectionRate, rates('selection')[value], `selection ${value}`);
    same(truePositiveRate, rates('truePositive')[value], `true positives ${value}`);
    const change = (name: string) => (rates(name)[value] as number) - (rates(name)[first] as number);
    if (value === first) expect(difference).toBeUndefined();
    else {
      same(difference?.selectionRate, change('selection'), 'difference');
      same(difference?.truePositiveRate, change('truePositive'), 'difference');
    }
  }
});
