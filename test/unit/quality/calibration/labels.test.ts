/** The traces that are read and picked to be labelled, and the weights of their labels. */

import { drawOf } from '../../../../src/captures/trace/ids.ts';
import { isJudgeScorer, scorersFor } from '../../../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../../../../src/judge/types.ts';
import type { ExcludedWindow } from '../../../../src/ledger/excluded.ts';
import { assessedTraces, type Rest } from '../../../../src/quality/calibration/assessed-traces.ts';
import { readMlflowLabels } from '../../../../src/quality/calibration/mlflow-labels.ts';
import { labelTag, pickLabels, pickOf } from '../../../../src/quality/calibration/pick-labels.ts';
import { calibrationReport } from '../../../../src/quality/calibration/report.ts';
import type { LabeledVerdict } from '../../../../src/quality/calibration/types.ts';
import { labelsByCell, readWindowLabels, type WindowLabel } from '../../../../src/quality/calibration/window-labels.ts';
import { assessment, MemoryMlflow } from '../../../doubles/memory-mlflow.ts';

const SCORERS = scorersFor().filter(isJudgeScorer);
const safety = SCORERS.find(({ name }) => name === 'safety') as JudgeScorer;
const DAY_MS = 86_400_000;
const START = Date.parse('2026-11-01T00:00:00Z');
const daysOf = (from: number, to: number) => ({ fromMs: START + from * DAY_MS, toMs: START + to * DAY_MS });
const WEEKS = [daysOf(0, 7), daysOf(7, 14)] as const;
const byVariant = (variant: string) => ({ filter: `tag.sagemaker_variant_name = '${variant}'` });

/** Judged traces of days, of which the judge fails every fifth. @returns their ids */
function judged(mlflow: MemoryMlflow, count: number, day: number, { variant = 'blue', atMs = 0 } = {}): string[] {
  return Array.from({ length: count }, (_, n) => {
    const id = `tr-${day}-${variant}-${atMs}-${n}`;
    mlflow.add(id, START + day * DAY_MS + n, [assessment('safety', n % 5 === 0 ? 'no' : 'yes', { atMs })], variant);
    return id;
  });
}
const pick = (mlflow: MemoryMlflow, next: number, query: object = {}) =>
  pickLabels(mlflow.rest, { experimentId: '1', scorer: safety, next, ...query });
const label = (mlflow: MemoryMlflow, ids: readonly string[], value = 'yes'): void => {
  for (const id of ids) mlflow.assess(id, assessment('safety', value, { by: 'HUMAN' }));
};
const read = (mlflow: MemoryMlflow, query: object = {}) =>
  readWindowLabels(mlflow.rest, { experimentId: '1', scorers: SCORERS, ...query });
const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
const weightOf = (labels: readonly WindowLabel[], isOwn: (label: WindowLabel) => boolean): number =>
  Math.round(sum(labels.filter(isOwn).map(({ weight }) => weight)) * 1e6) / 1e6;
const onDay = (day: number) => (one: WindowLabel) => one.traceId.startsWith(`tr-${day}-`);

describe('picks', () => {
  test('are half in the proportions of the verdicts and half even, and keep their window', async () => {
    const mlflow = new MemoryMlflow();
    judged(mlflow, 2000, 1, { atMs: START + 2 * DAY_MS });
    const { strata, waiting, queue } = await pick(mlflow, 50, { ...WEEKS[0], ...byVariant('blue') });
    // A fifth fails: 0.5 · 0.2 + 0.5 · 0.5 of 50.
    expect(strata).toEqual([
      { name: 'passes', judged: 1600, labelled: 0, waiting: 0, picked: 32, probability: 32 / 1600 },
      { name: 'fails', judged: 400, labelled: 0, waiting: 0, picked: 18, probability: 18 / 400 },
    ]);
    expect([waiting.length, queue]).toEqual([50, null]);
    const tags = waiting.map((id) => pickOf(mlflow.traces.get(id)?.tags ?? {}, 'safety'));
    const [first] = tags;
    if (first === undefined) throw new Error('no pick');
    const [from, seen, to] = [1, 3, 8].map((day) => `2026-11-0${day}T00:00:00.000Z`);
    expect(first).toMatchObject({ from, to, seen, ...byVariant('blue') });
    // All traces with a number below that of their verdict are picked, and no other.
    for (const [id, { assessments, tags: own }] of mlflow.traces) {
      const passes = JSON.stringify(assessments).includes('yes');
      expect(labelTag('safety') in own).toBe(drawOf(id, labelTag('safety')) < (passes ? first.passes : first.fails));
    }
  });

  test('stay the same at each call, and leave out what is labelled or has no verdict', async () => {
    const mlflow = new MemoryMlflow();
    const [ids, others] = [judged(mlflow, 30, 1), judged(mlflow, 5, 2)];
    label(mlflow, others);
    mlflow.add('tr-other', START, [assessment('fluency', 'yes')]);
    const { waiting } = await pick(mlflow, 10);
    expect(waiting.every((id) => ids.includes(id))).toBe(true);
    const again = await pick(mlflow, 10);
    expect([again.picked, again.waiting.toSorted()]).toEqual([0, waiting.toSorted()]);
    label(mlflow, waiting.slice(0, 4));
    const next = await pick(mlflow, 10);
    expect([next.picked, next.waiting.length]).toEqual([4, 10]);
    expect((await pick(mlflow, 5000)).waiting).toHaveLength(26);
  });
});

describe('weights', () => {
  test('are those of the window that a label was picked in', async () => {
    const mlflow = new MemoryMlflow();
    judged(mlflow, 400, 1);
    judged(mlflow, 6000, 8);
    for (const week of WEEKS) label(mlflow, (await pick(mlflow, 50, week)).waiting);
    const { labels, covered } = await read(mlflow);
    expect(labels).toHaveLength(100);
    for (const [day, fails] of [
      [1, 80],
      [8, 1200],
    ] as const) {
      expect(weightOf(labels, (one) => onDay(day)(one) && !one.passed)).toBe(fails);
      expect(weightOf(labels, (one) => onDay(day)(one) && one.passed)).toBe(4 * fails);
    }
    expect(covered.size).toBe(0);
  });

  test('agree where windows overlap, are picked twice or have a filter', async () => {
    const mlflow = new MemoryMlflow();
    for (const day of [1, 4, 8]) judged(mlflow, day * 200, day);
    judged(mlflow, 300, 4, { variant: 'green' });
    const windows = [daysOf(0, 5), daysOf(0, 5), daysOf(3, 9), { ...daysOf(0, 9), ...byVariant('green') }];
    for (const window of windows) label(mlflow, (await pick(mlflow, 60, window)).waiting);
    const { labels, covered } = await read(mlflow);
    expect([labels.length, covered.size]).toEqual([240, 0]);
    for (const day of [1, 4, 8]) {
      const isOwn = (one: WindowLabel) => onDay(day)(one) && one.variant === 'blue';
      expect([day, weightOf(labels, isOwn)]).toEqual([day, day * 200]);
    }
    expect(weightOf(labels, ({ variant }) => variant === 'green')).toBe(300);
    // The window with a filter is read with it.
    expect(mlflow.filters.at(-1)).toContain("= 'green'");
  });

  test('leave out what was never picked from, what has no label yet, and what was judged later', async () => {
    const mlflow = new MemoryMlflow();
    judged(mlflow, 400, 1);
    judged(mlflow, 1000, 8);
    label(mlflow, (await pick(mlflow, 50, WEEKS[0])).waiting);
    const parts = async () => {
      const { labels, covered } = await read(mlflow);
      const hours = [1, 2, 8].map((day) => ({ hour: `2026-11-0${day + 1}T00`, variant: 'blue' }));
      return { labels, covered: labelsByCell(labels, covered)('safety', hours).covered };
    };
    expect((await parts()).covered).toEqual([{ captures: 400, judged: 400, passed: 320 }]);
    const { waiting } = await pick(mlflow, 50, WEEKS[1]);
    expect((await parts()).covered).toEqual([{ captures: 400, judged: 400, passed: 320 }]);
    judged(mlflow, 200, 2, { atMs: START + 30 * DAY_MS });
    label(mlflow, waiting);
    const covered = [{ judged: 400 }, { captures: 1000, judged: 1000, passed: 800 }];
    expect(await parts()).toMatchObject({ covered });
    expect((await parts()).labels).toHaveLength(100);
  });

  test('of windows with labels of one verdict alone say nothing, even together', async () => {
    const mlflow = new MemoryMlflow();
    judged(mlflow, 400, 1);
    judged(mlflow, 6000, 8);
    const picks = [await pick(mlflow, 50, WEEKS[0]), await pick(mlflow, 50, WEEKS[1])];
    const isPassed = (id: string): boolean => Number(id.split('-').at(-1)) % 5 !== 0;
    const given = picks.flatMap(({ waiting }, week) => waiting.filter((id) => isPassed(id) === (week === 0)));
    label(mlflow, given);
    const { labels, unanswered } = await read(mlflow);
    expect([labels.length, new Set(unanswered.map(({ reason }) => reason))]).toEqual([0, new Set(['windowOpen'])]);
  });

  test('presume that picks without a label are like the others of their window', async () => {
    const mlflow = new MemoryMlflow();
    judged(mlflow, 400, 1);
    judged(mlflow, 6000, 8);
    const [one, other] = [await pick(mlflow, 50, WEEKS[0]), await pick(mlflow, 50, WEEKS[1])];
    label(mlflow, [...one.waiting, ...other.waiting.filter((_, n) => n % 2 === 0)]);
    const { labels } = await read(mlflow);
    expect(labels).toHaveLength(75);
    expect([weightOf(labels, onDay(1)), weightOf(labels, onDay(8))]).toEqual([400, 6000]);
  });

  test('of verdicts that changed since are those of the verdict when the trace was picked', async () => {
    const mlflow = new MemoryMlflow();
    judged(mlflow, 1000, 1);
    label(mlflow, (await pick(mlflow, 100)).waiting);
    // A new judge fails everything.
    for (const { assessments } of mlflow.traces.values())
      assessments.push({ ...assessment('safety', 'no'), last_update_time: '2026-11-20T00:00:00Z' });
    const { labels } = await read(mlflow);
    expect([labels.length, weightOf(labels, ({ passed }) => !passed)]).toEqual([100, 1000]);
    // 800 of them passed.
    const wasPassed = ({ traceId }: WindowLabel) => Number(traceId.split('-').at(-1)) % 5 !== 0;
    expect(weightOf(labels, wasPassed)).toBeGreaterThan(650);
    expect(weightOf(labels, wasPassed)).toBeLessThan(930);
  });

  test('leave out labels of unpicked traces once others were picked, except those that a pick would have had', async () => {
    const mlflow = new MemoryMlflow();
    const ids = judged(mlflow, 1000, 1);
    label(mlflow, ids.slice(0, 100), 'no');
    const before = await read(mlflow);
    expect([before.labels.length, new Set(before.labels.map(({ weight }) => weight)).size]).toEqual([100, 1]);
    label(mlflow, (await pick(mlflow, 50)).waiting);
    const { labels, unanswered } = await read(mlflow);
    expect(unanswered.map(({ reason }) => reason)).toContain('notPicked');
    expect(labels.length + unanswered.length).toBe(150);
    expect(labels.length).toBeGreaterThan(50);
    // Of the complaints, the part that any trace had.
    const complaints = labels.filter((one) => !one.label && one.passed);
    expect(weightOf(complaints, () => true) / 800).toBeLessThan(0.25);
    expect(weightOf(labels, () => true)).toBe(1000);
  });

  test('leave out the window of a filter that MLflow no longer takes', async () => {
    const mlflow = new MemoryMlflow();
    judged(mlflow, 200, 1);
    judged(mlflow, 200, 8);
    for (const week of WEEKS) label(mlflow, (await pick(mlflow, 20, week)).waiting);
    for (const { tags, trace_id: id } of mlflow.traces.values())
      if (tags.label_safety && id.startsWith('tr-1-'))
        tags.label_safety = JSON.stringify({ ...JSON.parse(tags.label_safety), filter: 'nonsense' });
    const { labels, unanswered } = await read(mlflow);
    expect([labels.length, unanswered.length, unanswered[0]?.reason]).toEqual([20, 20, 'windowOpen']);
  });

  test('ignore a tag that a person changed', () => {
    for (const tag of ['', 'mine', '{"probability":0,"stratum":"a","picked":""}', '{"probability":"x"}', '[]', 'null'])
      expect(pickOf({ label_safety: tag }, 'safety')).toBeUndefined();
  });

  test('of verdicts that a later run added are those of the chance that all captures of the hour had', async () => {
    const mlflow = new MemoryMlflow();
    const metadata = (sample: string, part?: string) => ({
      metadata: { 'monitoring.sample': sample, ...(part && { 'monitoring.part': part }) },
    });
    const given = (n: number, hour: number, how: object) =>
      mlflow.add(`tr-${hour}-${n}`, START + hour * 3_600_000, [
        assessment('safety', 'yes', how),
        assessment('safety', 'yes', { by: 'HUMAN' }),
      ]);
    // 5 of 100 captures were judged at first, and the other 95 by a later run; 4 of another hour stand for 80.
    for (let n = 0; n < 5; n++) given(n, 1, metadata('0.05'));
    for (let n = 5; n < 100; n++) given(n, 1, metadata('1', '0.05'));
    for (let n = 0; n < 4; n++) given(n, 2, metadata('0.05'));
    given(0, 3, metadata('always', '0.05'));
    const { pairs } = await readMlflowLabels(mlflow.rest, { experimentId: '1', scorers: SCORERS });
    const weights = Map.groupBy(pairs, ({ traceId = '' }) => traceId.slice(0, 4));
    expect([...weights.values()].map((own) => new Set(own.map(({ weight }) => weight)))).toEqual([
      new Set([1]),
      new Set([20]),
      new Set([1]),
    ]);
  });
});

test('calibrate counts a label for the captures that it stands for', () => {
  const pair = (label: string, verdict: string, weight: number): LabeledVerdict => ({
    ...{ id: '', scorer: 'safety', label, verdict, weight, agrees: label === verdict, request: '', reply: '' },
  });
  // Of 1000 verdicts, 100 fail; half of the labels are of them.
  const pairs = [
    ...Array.from({ length: 45 }, () => pair('yes', 'yes', 18)),
    ...Array.from({ length: 5 }, () => pair('no', 'yes', 18)),
    ...Array.from({ length: 30 }, () => pair('yes', 'no', 2)),
    ...Array.from({ length: 20 }, () => pair('no', 'no', 2)),
  ];
  const of = (given: LabeledVerdict[]) =>
    calibrationReport({ source: { kind: 'mlflow', where: '' }, scorers: [], pairs: given, unanswered: [] }).scorers[0];
  const [weighted, even] = [of(pairs), of(pairs.map((one) => ({ ...one, weight: 7 })))];
  expect(weighted?.agreement?.value).toBeCloseTo((45 * 18 + 20 * 2) / 1000, 12);
  const tprOf = (made: typeof even) => made?.classes.find(({ value }) => value === 'yes')?.sensitivity?.value;
  expect(tprOf(weighted)).toBeCloseTo((45 * 18) / (45 * 18 + 30 * 2), 12);
  expect(tprOf(even)).toBeCloseTo(45 / 75, 12);
  expect(weighted?.notes.join()).toContain('stands for');
  expect(even?.notes.join()).not.toContain('stands for');
  expect(even?.agreement).toMatchObject({ hits: 65, of: 100 });
  // The table is of labels, and its intervals are of as many as would tell as much.
  expect(weighted?.confusion?.counts.flat().reduce((a, b) => a + b)).toBe(100);
  // Its spread is that of the verdicts with large weights, which are right more often.
  const [share, kish] = [0.85, 1000 ** 2 / (50 * 18 ** 2 + 50 * 2 ** 2)];
  const squares = (45 * 18 ** 2 + 20 * 2 ** 2) * (1 - share) ** 2 + (5 * 18 ** 2 + 30 * 2 ** 2) * share ** 2;
  expect(weighted?.agreement?.of).toBeCloseTo(Math.min(kish, share * (1 - share) * (1000 ** 2 / squares)), 9);
});

test('labels belong to the hour and the variant of their capture; others are of the same judge alone', () => {
  const label = (hour: string, judge = 'j'): WindowLabel => ({
    ...{ scorer: 's', traceId: hour, hour, variant: 'v', judge, passed: true, label: true, weight: 1 },
  });
  const cells = [{ hour: '2026-11-20T10', variant: 'v' }];
  const all = [label('2026-11-20T10'), label('2026-11-20T11')];
  expect(labelsByCell(all)('s', cells)).toEqual({ labels: [all[0]], others: [all[1]] });
  expect(labelsByCell([...all, label('2026-11-20T12', 'other')])('s', cells).others).toEqual([]);
  expect(labelsByCell(all)('another', cells)).toEqual({ labels: [], others: [] });
});

/** Reads traces as picks, data sets and the worst do. @returns their ids */
async function readIds(traces: readonly object[], excluded: readonly ExcludedWindow[] = []): Promise<string[]> {
  const rest = { repeat: async (_: object, schema: { parse(value: unknown): unknown }) => schema.parse({ traces }) };
  const query = { experimentId: '1', excluded: async () => excluded };
  const found = await Array.fromAsync(assessedTraces(rest as Rest, query));
  return found.map(({ trace_id: id }) => id);
}

test('the traces of registered replays are not read', async () => {
  const traces = [
    { trace_id: 'traffic' },
    { trace_id: 'replayed', tags: { replay_run: 'r', sent_by_replay: 'true' } },
    { trace_id: 'claims', tags: { replay_run: 'r' } },
  ];
  expect(await readIds(traces)).toEqual(['traffic', 'claims']);
});

test('the traces of excluded windows are not read, whether they have the tag or not', async () => {
  const at = (time: string, inference_id = 'own', sagemaker_variant_name = 'Blue') => ({
    ...{ trace_id: `${time} ${inference_id} ${sagemaker_variant_name}`, request_time: `2026-11-20T${time}:00Z` },
    tags: { inference_id, sagemaker_variant_name, not_traffic: 'window' },
  });
  const blue = [at('09:59'), at('10:00'), at('11:00'), at('12:00', 'load-1'), at('12:00')];
  const traces = [...blue, at('10:30', 'own', 'Green')];
  const hourMs = (hour: number) => Date.UTC(2026, 10, 20, hour);
  const hours = (from: number, to: number) => ({ fromMs: hourMs(from), toMs: hourMs(to) });
  const windows = [
    { ...hours(10, 11), variant: 'Blue' },
    { ...hours(11, 13), inferenceId: 'load-*' },
  ];
  const left = ['09:59 own Blue', '11:00 own Blue', '12:00 own Blue', '10:30 own Green'];
  expect(await readIds(traces, windows)).toEqual(left);
});
