/** Captures that are no traffic: traced, neither judged nor counted with the others, and back when a window is taken back. */
import { changeExcluded, type ExcludedWindow, withoutSpan } from '../../../src/ledger/excluded.ts';
import { forgetIds } from '../../../src/ledger/forget.ts';
import { cellsOf, readWindow, sumOfCells } from '../../../src/quality/counts-store.ts';
import { mergeLedger } from '../../../src/quality/merge-ledger.ts';
import { ChunkRig, HOUR, JUDGED } from '../../helpers/chunk-rig.ts';
import { callerLine, chatLine } from '../../helpers/deployed-captures.ts';
import { ledgerRows } from '../../helpers/ledger-rows.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const HOUR_MS = 3_600_000;
const FROM_MS = Date.parse(`${HOUR}:00Z`);
const LONG = 'a'.repeat(100_000);
const at = (minute: number): string => new Date(FROM_MS + minute * 60_000).toISOString();
const windowOf = (from: number, to: number, more: Partial<ExcludedWindow> = {}): ExcludedWindow => ({
  ...{ fromMs: FROM_MS + from * 60_000, toMs: FROM_MS + to * 60_000 },
  ...more,
});

class Rig extends ChunkRig {
  readonly work = { storage: this.storage.storage, workBucket: 'work' };
  /** By trace. */
  readonly tags: (string | undefined)[] = [];
  constructor() {
    super();
    const { writeTraces } = this.store;
    this.store.writeTraces = (experiment, traces, ...more) => {
      this.tags.push(...traces.map(({ tags }) => tags.not_traffic));
      return writeTraces(experiment, traces, ...more);
    };
  }
  exclude = (...windows: ExcludedWindow[]) => changeExcluded(this.work, () => windows);
  /** All captures, those beside them, and verdicts of the judge. */
  async counted(): Promise<[captures: number, beside: number, verdicts: number]> {
    const cell = sumOfCells(cellsOf(await readWindow(this.work, { fromMs: FROM_MS, toMs: FROM_MS + HOUR_MS })));
    const { 1: sample = {} } = cell.scorers?.[JUDGED] ?? {};
    return [cell.captures ?? 0, cell.notTraffic ?? 0, sample.values?.yes ?? 0];
  }
  merge(nowMs: number): Promise<void> {
    const skipped = (_: string, error: unknown): void => {
      throw error;
    };
    return mergeLedger(this.work, { measures: [], nowMs, hasTime: () => true, skipped });
  }
}

const RULES: object[] = [
  { name: 'canary', inferenceId: 'canary-*-eu' },
  { name: 'locust', attributes: { source: 'lo*st', constructor: '*' }, variant: 'B*' },
  { name: 'green', variant: 'Green' },
  // A matcher that goes back would not end.
  { name: 'stars', inferenceId: `${'*a'.repeat(99)}*b`, attributes: { source: `${'*a'.repeat(99)}*b` } },
  { name: 'more stars', attributes: { source: `${'*a'.repeat(99)}*b` } },
];
const environment = testEnvironment({ NOT_TRAFFIC: JSON.stringify(RULES) });
const metadata = { source: 'locust', constructor: 'x' };

test.each<[by: string, line: string, tag: string | undefined]>([
  ['an id', callerLine('a', {}, at(0), 'canary-17-eu'), 'rule canary'],
  ['an id that is the whole pattern', callerLine('a', {}, at(0), 'canary--eu'), 'rule canary'],
  ['an id that begins and ends with the same characters', callerLine('a', {}, at(0), 'canary-eu'), undefined],
  ['no id', chatLine('a'), undefined],
  ['attributes', callerLine('a', { metadata }, at(0)), 'rule locust'],
  ['one of two attributes', callerLine('a', { metadata: { source: 'locust' } }, at(0)), undefined],
  ['an endless id', callerLine('a', {}, at(0), LONG), undefined],
  ['endless attributes', callerLine('a', { metadata: { source: LONG, [LONG]: LONG } }, at(0)), undefined],
])('the rules decide by %s', async (_, line, tag) => {
  const rig = new Rig();
  const cell = await rig.evaluate(rig.request('one', {}, 0, [line]), { environment });
  expect(rig.tags).toEqual([tag]);
  expect(cell).toEqual(tag ? { notTraffic: 1 } : expect.objectContaining({ captures: 1 }));
  expect(await rig.counted()).toEqual(tag ? [0, 1, 0] : [1, 0, 1]);
  const { captures, inferences } = await ledgerRows(rig.work.storage, 'work');
  expect(captures[0]?.notTraffic).toBe(tag);
  if (tag) expect(inferences).toEqual([]);
  // Without the rule, a later run judges it.
  await rig.evaluate(rig.request('two', {}, 0, [line]));
  expect(await rig.counted()).toEqual([1, 0, 1]);
});

const LINES = [0, 10, 20, 30].map((minute) => callerLine(`m${minute}`, {}, at(minute), `load-${minute}`));

test('new captures of a window are traced and not judged, and come back when it is taken back', async () => {
  const rig = new Rig();
  await rig.exclude(
    windowOf(10, 20),
    windowOf(20, 60, { variant: 'Green' }),
    windowOf(0, 60, { inferenceId: 'load-3*' }),
  );
  const cell = await rig.evaluate(rig.request('one', {}, 0, LINES));
  expect(cell).toMatchObject({ captures: 2, notTraffic: 2 });
  expect(rig.tags).toEqual(expect.arrayContaining([undefined, 'window', undefined, 'window']));
  expect(await rig.counted()).toEqual([2, 2, 2]);
  await rig.exclude();
  expect(await rig.counted()).toEqual([4, 0, 2]);
  await rig.evaluate(rig.request('two', {}, 0, LINES));
  expect(await rig.counted()).toEqual([4, 0, 4]);
});

test('older captures are left out at once and come back, also of days with a sum', async () => {
  const rig = new Rig();
  await rig.evaluate(rig.request('one', {}, 0, LINES));
  const windows = [windowOf(5, 15, { variant: 'Blue' }), windowOf(15, 60, { inferenceId: 'load-*0' })];
  for (const late of [0, 1]) {
    expect(await rig.counted()).toEqual([4 + late, 0, 4]);
    await rig.exclude(...windows);
    expect(await rig.counted()).toEqual([1 + late, 3, 1]);
    // The sum is made while windows are in force.
    await rig.log(rig.request(`late-${late}`, {}, 0, [chatLine(`late-${late}`, at(0))]));
    await rig.merge(Date.now() + (2 + late) * HOUR_MS);
    expect(await rig.counted()).toEqual([2 + late, 3, 1]);
    await rig.exclude();
    expect(await rig.counted()).toEqual([5 + late, 0, 4]);
  }
  expect([...rig.storage.objects.keys()].filter((key) => key.startsWith('ledger/sums/'))).toHaveLength(1);
});

test('an id that is forgotten meets no pattern', async () => {
  const rig = new Rig();
  await rig.evaluate(rig.request('one', {}, 0, LINES));
  await rig.exclude(windowOf(0, 60, { inferenceId: '*' }));
  expect(await rig.counted()).toEqual([0, 4, 0]);
  const { 'ids/people': people } = await ledgerRows(rig.work.storage, 'work');
  await forgetIds(rig.work, new Map(people.slice(1).map(({ traceId = '' }) => [traceId, HOUR])), Date.now());
  expect(await rig.counted()).toEqual([3, 1, 3]);
});

test('a span divides a window, ends one, and leaves others', () => {
  const windows = [windowOf(0, 30), windowOf(5, 15), windowOf(15, 25), windowOf(40, 50)];
  const expected = [windowOf(0, 10), windowOf(20, 30), windowOf(5, 10), windowOf(20, 25), windowOf(40, 50)];
  expect(windows.flatMap((one) => withoutSpan(one, windowOf(10, 20)))).toEqual(expected);
});
