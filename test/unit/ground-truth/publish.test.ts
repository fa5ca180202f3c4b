/** What a run over labels publishes: objectives, days, and Model Monitor's files and metrics. */
import * as z from 'zod';
import type { LabeledRow } from '../../../src/core/contract/ground-truth.ts';
import { areaOf, truthKeys } from '../../../src/core/contract/work-keys.ts';
import { rewriteHour } from '../../../src/ground-truth/join/labeled-store.ts';
import { measureLabels } from '../../../src/ground-truth/measure/publish.ts';
import { changeExcluded } from '../../../src/ledger/excluded.ts';
import { readChanges, readMeasurement } from '../../../src/quality/objective-states.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { stepsOn } from '../../helpers/ground-truth.ts';
import { publishedMetrics } from '../../helpers/published-metrics.ts';

let memory: MemoryStorage;
let published: Record<string, unknown>[];
beforeEach(() => {
  memory = new MemoryStorage();
  published = publishedMetrics();
});
afterEach(() => jest.restoreAllMocks());

/** The run of `stepsOn` began then. */
const BEGAN = Date.parse('2026-11-25T00:00:00Z');

/** Writes labeled rows to an hour; of `count`, `right` are right. */
async function label(hour: string, count: number, right: number, more: Partial<LabeledRow> = {}) {
  const second = Date.parse(`${hour}:30:00Z`) / 1000;
  const rowOf = (i: number): LabeledRow => ({
    ...{ id: `${hour}-${more.variant ?? 'A'}-${i}`, endpoint: 'e', variant: 'A', second, traceId: 'tr', timeMs: 0 },
    ...{ line: i + 1, label: i % 2, prediction: { value: i < right ? i % 2 : 1 - (i % 2) }, ...more },
  });
  const rows = Array.from({ length: count }, (_, i) => rowOf(i));
  await rewriteHour(memory.work, hour, async function* (draft) {
    draft.changed = true;
    yield* draft.rows;
    yield* rows;
  });
  memory.writtenMs.set(truthKeys.labeled(hour), BEGAN);
}

const run = async (objectives: object[], truth: object = {}, remainingMs?: () => number) => {
  const environment = {
    SHADOW_VARIANTS: 'Shadow,Dark',
    QUALITY_OBJECTIVES: JSON.stringify(objectives),
    GROUND_TRUTH: JSON.stringify({ days: 400, ...truth }),
  };
  const deps = stepsOn(memory.storage, environment, remainingMs);
  let cursor: string | null = null;
  let calls = 0;
  do {
    ({ cursor } = await measureLabels(cursor, deps));
    calls += 1;
  } while (cursor !== null);
  return calls;
};
const shown = () =>
  published.flatMap(({ _aws, StackPrefix, Objective, ...rest }) =>
    Objective === undefined ? [] : [{ Objective, ...rest }],
  );
const report = (day: string, file: string) =>
  JSON.parse(memory.objects.get(truthKeys.reports(day, file))?.toString() ?? 'null');

test('excluded windows are in no figure', async () => {
  await label('2026-11-20T10', 100, 100);
  await label('2026-11-20T11', 100, 0);
  await label('2026-11-20T12', 10, 0, { id: 'load-7_0', row: 0 });
  const atMs = (hour: number) => Date.parse(`2026-11-20T${hour}:00Z`);
  const windows = [
    { fromMs: atMs(11), toMs: atMs(12), variant: 'A' },
    { fromMs: atMs(10), toMs: atMs(13), inferenceId: 'load-?' },
    { fromMs: atMs(12), toMs: atMs(13), inferenceId: '*-7' },
  ];
  await changeExcluded(memory.work, () => windows);
  await run([{ accuracy: { atLeast: 0.5 } }]);
  expect(shown()).toEqual([{ Objective: 'accuracy', TrueValue: 1 }]);
});

test('an objective is missed when the interval shows it, over the window that ends with the latest change', async () => {
  await label('2026-11-10T10', 1000, 100);
  await label('2026-11-19T10', 100, 89);
  await label('2026-11-20T10', 100, 89);
  await label('2026-11-20T11', 400, 200, { variant: 'B' });
  await run([
    // 89% of 200 in variant A does not show less than 90%, and does show less than 95%; neither does 9 days ago count.
    { accuracy: { atLeast: 0.9 }, variant: 'A' },
    { accuracy: { atLeast: 0.95 }, over: '2d', variant: 'C' },
    { recall: { atLeast: 0.95 }, over: '2d', variant: 'A' },
    { f1: { atLeast: 0.6 } },
    { mae: { atMost: 1 } },
  ]);
  expect(shown()).toEqual([
    { Objective: 'accuracy A', TrueValue: 0.89 },
    { Objective: 'recall A', TrueValue: 0.88, QualityMissed: 1 },
    // 188 of 300 positives are found by 298 predictions.
    { Objective: 'f1', TrueValue: expect.closeTo((2 * 188) / 598, 9) },
  ]);
});

test('the newest measurement of an objective is kept, and when it became missed or met', async () => {
  const objectives = [{ accuracy: { atLeast: 0.9 }, over: '1d' }];
  for (const [day, right] of Object.entries({ 10: 95, 12: 50, 14: 50, 16: 95 })) {
    memory.writtenMs.clear();
    await label(`2026-11-${day}T10`, 100, right);
    await run(objectives);
  }
  const at = (day: number) => Date.parse(`2026-11-${day}T11:00:00Z`) / 1000;
  expect(await readMeasurement(memory.work, 'accuracy')).toMatchObject({
    ...{ from: '2026-11-15T11', end: '2026-11-16T11', rows: 100, value: 0.95, missed: false, since: at(16) },
  });
  const window = { fromMs: 0, toMs: BEGAN };
  expect(await readChanges(memory.work, window)).toEqual([
    { objective: 'accuracy', isMissed: true, since: at(11), second: at(12) },
    { objective: 'accuracy', isMissed: false, since: at(16), second: at(16) },
  ]);
});

test('shadow variants are in no objective that does not name them, nor in the figures of a day', async () => {
  await label('2026-11-20T10', 100, 95);
  await label('2026-11-20T10', 100, 10, { variant: 'Shadow' });
  await run([{ accuracy: { atLeast: 0.9 } }, { accuracy: { atLeast: 0.9 }, variant: 'Shadow' }]);
  expect(shown()).toEqual([
    { Objective: 'accuracy', TrueValue: 0.95 },
    { Objective: 'accuracy Shadow', TrueValue: 0.1, QualityMissed: 1 },
  ]);
  const { binary_classification_metrics: day } = report('2026-11-20', 'statistics.json');
  expect(day.accuracy.value).toBe(0.95);
});

test('only changed windows are measured, the first of which ends with the latest change', async () => {
  await label('2026-11-20T10', 100, 50);
  memory.writtenMs.set(truthKeys.labeled('2026-11-20T10'), BEGAN - 3_600_000);
  expect(await run([{ accuracy: { atLeast: 0.9 } }])).toBe(1);
  expect(shown()).toEqual([]);
  await label('2026-11-12T10', 100, 95);
  await run([{ accuracy: { atLeast: 0.9 } }]);
  expect(shown()).toEqual([{ Objective: 'accuracy', TrueValue: 0.95 }]);
  const files = ['statistics.json', 'constraints.json', 'constraint_violations.json'];
  expect([...memory.objects.keys()].filter((key) => key.startsWith(areaOf('truthReports')))).toEqual(
    files.map((file) => truthKeys.reports('2026-11-12', file)),
  );
  // An earlier run was killed after its join.
  published.length = 0;
  memory.put(truthKeys.toPublish('2026-11-20T10', 'etag'), {});
  await run([{ accuracy: { atLeast: 0.9 } }]);
  expect(shown()).toMatchObject([{ QualityMissed: 1 }]);
});

describe('labels that come late', () => {
  const objectives = [{ accuracy: { atLeast: 0.9 } }];
  const [good, bad] = [0.98, 0.6];
  const at = (time: string) => Date.parse(`2026-11-${time}:00:00Z`) / 1000;
  /** A run over 100 labels a day of each of these days, of which a share is right. */
  const labelDays = async (days: number[], share: number, count = 100) => {
    memory.writtenMs.clear();
    for (const day of days) await label(`2026-11-${String(day).padStart(2, '0')}T10`, count, Math.round(count * share));
    published.length = 0;
    await run(objectives);
    const { missed, since, rows } = (await readMeasurement(memory.work, 'accuracy')) ?? {};
    return { missed, since, rows, alarms: published.filter(({ QualityMissed }) => QualityMissed === 1).length };
  };
  const history = async () => {
    const changes = await readChanges(memory.work, { fromMs: 0, toMs: BEGAN });
    return changes.map(({ isMissed, since, second }) => [isMissed, since, second]);
  };

  test.each([[[good, bad]], [[bad, good]]])(
    'change nothing of today if they are of an old week: %j',
    async (shares) => {
      for (const share of shares) await labelDays(share === bad ? [21, 22, 23] : [1, 2, 3], share);
      const fallen = { missed: true, since: at('16T11'), alarms: 1 };
      expect(await labelDays([2], 1, 1)).toEqual({ ...fallen, rows: 300 });
      expect(await labelDays([23], 1, 1)).toEqual({ ...fallen, rows: 301 });
      // In the newest window, before its last hour.
      expect(await labelDays([21], 1, 1)).toEqual({ ...fallen, rows: 302 });
      expect(await history()).toEqual([[true, at('16T11'), at('23T11')]]);
    },
  );

  test('of an old bad week raise no alarm, and are history', async () => {
    await labelDays([21, 22, 23], good);
    expect(await labelDays([7, 8, 9], bad)).toMatchObject({ missed: false, rows: 300, alarms: 0 });
    const week = [
      [true, at('02T11'), at('09T11')],
      [false, at('16T11'), at('16T11')],
    ];
    expect(await history()).toEqual(week);
    expect(await labelDays([8], 1, 1)).toMatchObject({ missed: false, alarms: 0 });
    expect(await history()).toEqual(week);
    // The week was good after all.
    expect(await labelDays([8], 1, 3000)).toMatchObject({ missed: false, alarms: 0 });
    expect(await history()).toEqual([]);
  });

  test('correct the newest window, which then never was missed', async () => {
    await labelDays([20], good);
    expect(await labelDays([23], bad, 1000)).toMatchObject({ missed: true, since: at('16T11') });
    expect(await labelDays([22], 1, 9000)).toMatchObject({ missed: false, since: 0, alarms: 0 });
    expect(await history()).toEqual([]);
  });
});

test.each<[string, Partial<LabeledRow>, object, string]>([
  ['classes that no label has', { prediction: { value: 'cat' } }, { accuracy: { atLeast: 0.9 } }, '200 of 200'],
  ['one error that decides', { label: 1.5, prediction: { value: 9 } }, { rmse: { atMost: 1 } }, 'fewer than 1000 rows'],
])('what does not tell raises no alarm: %s', async (_, row, objective, why) => {
  await label('2026-11-20T10', 200, 0, row);
  await run([objective]);
  expect(shown()).toEqual([{ Objective: Object.keys(objective)[0], TrueValue: expect.any(Number) }]);
  const kept = await readMeasurement(memory.work, Object.keys(objective)[0] as string);
  expect(kept).toMatchObject({ missed: null, why: expect.stringContaining(why), since: 0, turns: [] });
});

test('what the model predicts is the same in all windows and days of a run', async () => {
  for (const day of ['18', '19', '20'])
    for (let i = 0; i < 12; i += 1)
      await label(`2026-11-${day}T10`, 1, 0, { label: i * Number(day), prediction: { value: i } });
  await run([
    { mae: { atMost: 1 }, over: '1d' },
    { bias: { atMost: 1 }, over: '3d' },
  ]);
  expect(shown().map(({ Objective }) => Objective)).toEqual(['mae', 'bias']);
  for (const day of ['18', '19', '20'])
    expect(report(`2026-11-${day}`, 'statistics.json')).toHaveProperty('regression_metrics');
});

test('an inference that claims to be of the future moves no window', async () => {
  await label('2026-11-20T10', 100, 50);
  await label('2226-11-20T10', 1, 1);
  await run([{ accuracy: { atLeast: 0.9 } }]);
  expect(shown()).toMatchObject([{ TrueValue: 0.5, QualityMissed: 1 }]);
});

test('resumes where the time of an invocation ended, and measures nothing twice', async () => {
  for (const day of ['17', '18', '19', '20']) await label(`2026-11-${day}T10`, 10, 9);
  const objectives = [{ accuracy: { atLeast: 0.5 } }, { f1: { atLeast: 0.5 } }];
  const truth = { modelMonitorSchedule: 'churn-quality' };
  expect(await run(objectives, truth, () => 1000)).toBe(7);
  expect(shown()).toHaveLength(2);
  expect(published.filter(({ MonitoringSchedule }) => MonitoringSchedule !== undefined)).toHaveLength(1);
  const days = [...memory.objects.keys()].filter((key) => key.endsWith('/statistics.json'));
  expect(days).toHaveLength(4);
});

/** The form of https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-model-quality-metrics.html. */
const metric = z.strictObject({ value: z.number(), standard_deviation: z.union([z.number(), z.literal('NaN')]) });
const table = z.record(z.string(), z.record(z.string(), z.number().int()));
const binary = ['recall', 'precision', 'accuracy', 'true_positive_rate', 'true_negative_rate', 'false_positive_rate'];
const others = ['false_negative_rate', 'auc', 'f0_5', 'f1', 'f2'];
const multi = ['accuracy', 'weighted_recall', 'weighted_precision', 'weighted_f0_5', 'weighted_f1', 'weighted_f2'];
const metricsOf = (names: string[], more = {}) =>
  z.strictObject({ ...Object.fromEntries(names.map((name) => [name, metric.optional()])), ...more });
const statistics = z.strictObject({
  version: z.number(),
  dataset: z.strictObject({ item_count: z.number().int() }),
  binary_classification_metrics: metricsOf([...binary, ...others], { confusion_matrix: table }).optional(),
  multiclass_classification_metrics: metricsOf(multi, { confusion_matrix: table }).optional(),
  regression_metrics: metricsOf(['mae', 'mse', 'rmse', 'r2']).optional(),
});
const operator = z.enum(['LessThanThreshold', 'GreaterThanThreshold']);
const constraint = z.record(z.string(), z.strictObject({ threshold: z.number(), comparison_operator: operator }));
const constraints = z.strictObject({
  version: z.number(),
  binary_classification_constraints: constraint.optional(),
  multiclass_classification_constraints: constraint.optional(),
  regression_constraints: constraint.optional(),
});
const violations = z.strictObject({
  violations: z.array(
    z.strictObject({ constraint_check_type: operator, description: z.string(), metric_name: z.string() }),
  ),
});

test("the files and metrics of a day have Model Monitor's form: two classes", async () => {
  await label('2026-11-20T10', 300, 210);
  const objectives = [
    ...['accuracy', 'recall', 'auc'].map((name) => ({ [name]: { atLeast: name === 'accuracy' ? 0.9 : 0.5 } })),
    { accuracy: { atLeast: 0.99 }, variant: 'A' },
  ];
  await run(objectives, { modelMonitorSchedule: 'churn-quality' });
  const found = statistics.parse(report('2026-11-20', 'statistics.json'));
  expect(found.dataset.item_count).toBe(300);
  const metrics = found.binary_classification_metrics as Record<string, { value: number; standard_deviation: number }>;
  expect(metrics.confusion_matrix).toEqual({ 0: { 0: 105, 1: 45 }, 1: { 0: 45, 1: 105 } });
  const value = (name: string) => metrics[name]?.value;
  expect(['recall', 'precision', 'false_positive_rate', 'f0_5', 'f2'].map(value)).toEqual(
    [0.7, 0.7, 0.3, 0.7, 0.7].map((each) => expect.closeTo(each, 12)),
  );
  expect(metrics.accuracy?.standard_deviation).toBeCloseTo(Math.sqrt((0.7 * 0.3) / 300), 3);
  expect(constraints.parse(report('2026-11-20', 'constraints.json')).binary_classification_constraints).toEqual({
    accuracy: { threshold: 0.9, comparison_operator: 'LessThanThreshold' },
    recall: { threshold: 0.5, comparison_operator: 'LessThanThreshold' },
    auc: { threshold: 0.5, comparison_operator: 'LessThanThreshold' },
  });
  const { violations: all } = violations.parse(report('2026-11-20', 'constraint_violations.json'));
  expect(all).toMatchObject([{ metric_name: 'accuracy', constraint_check_type: 'LessThanThreshold' }]);
  expect(all[0]?.description).toMatch(/^Metric accuracy with 0\.7 \+\/- 0\.0\d+ was LessThanThreshold '0\.9'$/);
  const own = published.find(({ MonitoringSchedule }) => MonitoringSchedule !== undefined) as {
    _aws: { CloudWatchMetrics: { Namespace: string; Dimensions: string[][] }[] };
  };
  const named = { MonitoringSchedule: 'churn-quality', Endpoint: expect.any(String) };
  expect(own).toMatchObject({ ...named, f1: expect.closeTo(0.7) });
  expect(own._aws.CloudWatchMetrics[0]).toMatchObject({
    Namespace: 'aws/sagemaker/Endpoints/model-metrics',
    Dimensions: [['Endpoint', 'MonitoringSchedule']],
  });
});

test("the files of a day have Model Monitor's form: more classes, numbers, few rows, and none for texts", async () => {
  const day = async (rows: Partial<LabeledRow>[], objectives: object[] = []) => {
    memory = new MemoryStorage();
    for (const row of rows) await label('2026-11-20T10', 1, 1, row);
    await run(objectives);
    return ['statistics.json', 'constraints.json', 'constraint_violations.json'].map((file) =>
      report('2026-11-20', file),
    );
  };
  // The counts of AWS's example of two classes; here, with one more class.
  const words = ['a', 'b', 'c'].map((name) => ({ label: name, prediction: { value: name === 'c' ? 'a' : name } }));
  const [many, limits, broken] = await day(words, [{ accuracy: { atLeast: 0.9 } }, { f1: { atLeast: 0.9 } }]);
  const found = statistics.parse(many).multiclass_classification_metrics as Record<string, { value: number }>;
  expect(found.weighted_f1?.value).toBeCloseTo((2 / 3 + 1) / 3, 12);
  expect(found.accuracy).toEqual({ value: 2 / 3, standard_deviation: 'NaN' });
  // Model Monitor's F1 of more than two classes is weighted, and that of the objective is the mean of the classes.
  expect(constraints.parse(limits).multiclass_classification_constraints).toEqual({
    accuracy: { threshold: 0.9, comparison_operator: 'LessThanThreshold' },
  });
  expect(violations.parse(broken).violations).toHaveLength(1);
  const numbers = [1.5, 2.5, 4].map((value) => ({ label: value, prediction: { value: value + 1 } }));
  const [errors, bounds, worse] = await day(numbers, [{ mae: { atMost: 0.5 } }, { bias: { atMost: 3 } }]);
  expect(statistics.parse(errors).regression_metrics).toMatchObject({ mse: { value: 1 }, rmse: { value: 1 } });
  expect(Object.keys(constraints.parse(bounds).regression_constraints ?? {})).toEqual(['mae']);
  expect(violations.parse(worse).violations).toMatchObject([{ constraint_check_type: 'GreaterThanThreshold' }]);
  expect(await day([{ label: 'Paris', prediction: { text: ['x', 'y'] } }])).toEqual([null, null, null]);
});
