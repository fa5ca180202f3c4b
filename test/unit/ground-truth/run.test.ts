/** The steps of a ground truth run: their order, over invocations, attempts and other runs. */
import { CONTRACT } from '../../../src/core/contract/contract.ts';
import type {
  LabelCounts,
  TruthRequest,
  TruthResult,
  TruthRunSummary,
} from '../../../src/core/contract/ground-truth.ts';
import { TRUTH_BEGINS } from '../../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../../src/core/contract/work-keys.ts';
import { runGroundTruth, type TruthSteps } from '../../../src/ground-truth/run.ts';
import { startForWaiting } from '../../../src/ground-truth/start-waiting.ts';
import { Lock } from '../../../src/limits/lock.ts';
import { LimitsTable } from '../../../src/limits/table.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';
import { stepsOn } from '../../helpers/ground-truth.ts';
import { publishedMetrics } from '../../helpers/published-metrics.ts';

const FILE = { bucket: 'labels', key: 'a.jsonl' };
const NOTHING: LabelCounts = {
  ...{ lines: 0, joined: 0, repeated: 0, replaced: 0, outdated: 0 },
  ...{ waiting: 0, unknown: 0, ambiguous: 0, invalid: 0 },
};
const LAMBDA_MS = 900_000;

let memory: MemoryStorage;
let table: MemoryTable;
let calls: string[];
let published: Record<string, unknown>[];
let steps: TruthSteps;
/** Time that is left; each call of a step takes some. */
let leftMs: number;

beforeEach(() => {
  memory = new MemoryStorage();
  table = new MemoryTable();
  calls = [];
  published = publishedMetrics();
  leftMs = LAMBDA_MS;
  steps = {
    read: async (input, cursor) => called(`read ${JSON.stringify(input)} ${cursor}`, { cursor: null, files: [] }),
    join: async (cursor) => called(`join ${cursor}`, { cursor: null }),
    measure: async (cursor) => called(`measure ${cursor}`, { cursor: null }),
    note: async (cursor) => called(`note ${cursor}`, { cursor: null, noted: 0, notNoted: {} }),
  };
});
afterEach(() => jest.restoreAllMocks());

function called<T>(call: string, result: T): T {
  calls.push(call);
  return result;
}

const lockOf = (owner: string): Lock => new Lock({ table: new LimitsTable(table.client, 't'), owner });

function invoke(request: Partial<TruthRequest> = {}, run = 'r'): Promise<TruthResult> {
  const of = { name: run, arn: `arn:${run}`, startTime: '2026-11-20T10:00:00Z' };
  return runGroundTruth(
    { contract: CONTRACT, input: FILE, run: of, scorers: [], state: TRUTH_BEGINS, ...request },
    { ...stepsOn(memory.storage, {}, () => leftMs), run: of, steps, lock: lockOf(run) },
  );
}

const summaryOf = (run = 'r'): TruthRunSummary =>
  JSON.parse(String(memory.objects.get(truthKeys.summary(run)))) as TruthRunSummary;

function report(digest: string, counts: Partial<LabelCounts>, error?: object): string {
  memory.put(truthKeys.file(digest), { ...FILE, counts: { ...NOTHING, ...counts }, error });
  return truthKeys.file(digest);
}

it('does all steps in one invocation if there is time, and sums the reports of its files', async () => {
  steps.read = async () => ({
    cursor: null,
    files: [report('1', { lines: 5, joined: 3, waiting: 1, invalid: 1 }), report('2', {}, { name: 'NoIdColumn' })],
  });
  steps.note = async () => ({ cursor: null, noted: 2, notNoted: { TraceDeleted: 1 } });
  const result = await invoke();
  expect(result).toMatchObject({ more: false, summary: { bucket: 'work', key: truthKeys.summary('r') } });
  expect(calls).toEqual(['join null', 'measure null']);
  expect(summaryOf()).toEqual({
    run: 'r',
    counts: { ...NOTHING, lines: 5, joined: 3, waiting: 1, invalid: 1 },
    files: [truthKeys.file('1'), truthKeys.file('2')],
    noted: 2,
    notNoted: { TraceDeleted: 1 },
  });
  // The file that could not be used is one of the two.
  expect(published).toEqual([expect.objectContaining({ LabelsRead: 5, LabelsJoined: 3, LabelsInvalid: 2 })]);
});

it('publishes no metric without a file', async () => {
  await invoke({ input: {} });
  expect(summaryOf()).toMatchObject({ files: [], counts: NOTHING });
  expect(published).toEqual([]);
});

it('resumes after a timeout without losing work', async () => {
  const pages = [report('1', { lines: 1 }), report('2', { lines: 2 }), report('3', { lines: 4 })];
  steps.read = async (_, cursor) => {
    leftMs = 0;
    const page = Number(cursor ?? 0);
    return { cursor: page === 2 ? null : String(page + 1), files: [pages[page] ?? ''] };
  };
  let result = await invoke();
  expect(result.state).toEqual({ step: 'read', cursor: '1', part: 1 });
  for (let part = 1; result.more; part += 1) {
    // Any attempt may be repeated: its first was killed at the end.
    await invoke({ state: result.state });
    leftMs = LAMBDA_MS;
    result = await invoke({ state: result.state });
    if (part > 10) throw new Error('It does not end');
  }
  expect(summaryOf()).toMatchObject({ counts: { lines: 7 }, files: pages });
});

it('repeats an attempt that failed with the same state, and counts its labels once', async () => {
  steps.read = async () => ({ cursor: null, files: [report('1', { lines: 3, joined: 3 })] });
  let fails = true;
  steps.note = async () => {
    if (fails) throw Object.assign(new Error('down'), { name: 'MlflowUnavailable' });
    return { cursor: null, noted: 3, notNoted: {} };
  };
  await expect(invoke()).rejects.toThrow('down');
  expect(published).toEqual([]);
  fails = false;
  await invoke();
  expect(summaryOf()).toMatchObject({ counts: { lines: 3 }, noted: 3 });
  expect(published).toHaveLength(1);
});

it('keeps what each part of the notes counts before the next one', async () => {
  let parts = 0;
  steps.note = async () => {
    parts += 1;
    return { cursor: parts < 3 ? 'more' : null, noted: 2, notNoted: {} };
  };
  let result = await invoke();
  expect([result.more, parts]).toEqual([true, 1]);
  while (result.more) result = await invoke({ state: result.state });
  expect([parts, summaryOf()]).toEqual([3, expect.objectContaining({ noted: 6 })]);
});

describe('the lock to note', () => {
  const PUBLISHING = 'lock#ground-truth-notes';
  /** Marks an hour, as the join of a run does. */
  const mark = (): void => void memory.put(truthKeys.toPublish('2026-11-20T10', 'e'), {});
  const unmark = (): void => void memory.objects.delete(truthKeys.toPublish('2026-11-20T10', 'e'));

  it('is left to the run that has it, which then begins again', async () => {
    let isFirst = true;
    steps.note = async (cursor, { run }) => {
      calls.push(`note of ${run.name} from ${cursor}`);
      unmark();
      if (run.name === 'first' && isFirst) {
        isFirst = false;
        mark();
        await invoke({}, 'second');
      }
      return { cursor: null, noted: 1, notNoted: {} };
    };
    await invoke({}, 'first');
    const noted = 'note of first from null';
    expect(calls.filter((call) => call.startsWith('note'))).toEqual([noted, noted]);
    expect(summaryOf('second')).toMatchObject({ noted: 0, notedBy: 'first' });
    expect(summaryOf('first')).toMatchObject({ noted: 2 });
    // The lock is free again.
    await invoke({}, 'third');
    expect(summaryOf('third')).toMatchObject({ noted: 1 });
  });

  it('is taken again in the next invocation if the time is over', async () => {
    steps.note = async () => {
      mark();
      leftMs = 0;
      return { cursor: null, noted: 1, notNoted: {} };
    };
    expect(await invoke({}, 'first')).toMatchObject({ more: true, state: { step: 'note', cursor: null, part: 1 } });
    expect(await lockOf('other').acquire(PUBLISHING)).toHaveProperty('item');
  });

  it('is held for as long as the function can run, and free after a failure', async () => {
    steps.note = async () => {
      const untilMs = (await lockOf('other').acquire(PUBLISHING)).other?.untilMs ?? 0;
      expect(untilMs).toBeGreaterThan(Date.now() + LAMBDA_MS - 10_000);
      expect(untilMs).toBeLessThanOrEqual(Date.now() + LAMBDA_MS);
      throw new Error('down');
    };
    await expect(invoke({}, 'failed')).rejects.toThrow('down');
    expect(await lockOf('other').acquire(PUBLISHING)).toHaveProperty('item');
  });
});

it('refuses an execution that a version of another contract began', async () => {
  await expect(invoke({ contract: CONTRACT + 1 })).rejects.toMatchObject({ name: 'ContractChanged' });
  expect(calls).toEqual([]);
});

describe('the input', () => {
  it('may be the event of a label file', async () => {
    await invoke({ input: { detail: { bucket: { name: 'labels' }, object: { key: 'a b.csv', etag: 'e' } } } });
    expect(calls[0]).toBe('read {"bucket":"labels","key":"a b.csv"} null');
  });

  it('may ask to wait', async () => {
    const notBefore = new Date(Date.now() + 90_000).toISOString();
    const waits = await invoke({ input: { waiting: true, notBefore } });
    expect(waits).toMatchObject({ more: true, state: TRUTH_BEGINS });
    expect(waits.waitSeconds).toBeGreaterThan(80);
    expect(waits.waitSeconds).toBeLessThan(91);
    expect(calls).toEqual([]);
    await invoke({ input: { waiting: true, notBefore: '2026-11-20T10:00:00Z' } });
    expect(calls).toContain('join null');
  });

  it.each([[{ bucket: 'labels' }], [{ key: 'a' }], [[]], ['a'], [{ waiting: false }]])(
    'is refused if it is %j',
    async (input) => {
      await expect(invoke({ input })).rejects.toMatchObject({ name: 'InvalidInput' });
    },
  );
});

const at = (time: string): number => Date.parse(`2026-11-20T${time}Z`);

function starter(windowSeconds: number, ...keys: string[]) {
  for (const key of keys) memory.put(key, '');
  const started = new Map<string, object>();
  const start = async (name: string, input: object): Promise<void> => void started.set(name, input);
  const deps = { ...memory.work, windowSeconds, start };
  return { started, on: (run: string, time = '10:00:00') => startForWaiting(run, deps, at(time)) };
}

describe('a run for labels that wait', () => {
  it('is not started if no label waits', async () => {
    const { started, on } = starter(0, truthKeys.labeled('2026-11-20T10'), truthKeys.file('1'));
    expect(await on('run')).toBeUndefined();
    expect(started.size).toBe(0);
  });

  it.each([[truthKeys.waiting('1')], [truthKeys.toPublish('2026-11-20T10', 'e')]])('is started for %s', async (key) => {
    const { started, on } = starter(0, key);
    const name = await on('run');
    // A retry of SummarizeRun has the same name, and another run another one.
    expect(await on('run')).toBe(name);
    expect(await on('other')).not.toBe(name);
    expect([...started.values()]).toEqual([{ waiting: true }, { waiting: true }]);
  });

  it('is one for all runs of captures of the window, after its end', async () => {
    const { started, on } = starter(600, truthKeys.waiting('1'));
    await on('a', '10:00:00');
    await on('b', '10:09:59.999');
    await on('c', '10:10:00');
    expect(Object.fromEntries(started)).toEqual({
      'waiting-until-2026-11-20T10-10-00': { waiting: true, notBefore: '2026-11-20T10:11:00.000Z' },
      'waiting-until-2026-11-20T10-20-00': { waiting: true, notBefore: '2026-11-20T10:21:00.000Z' },
    });
  });
});
