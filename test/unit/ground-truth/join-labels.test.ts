/** Labels that come late, early, twice, in disorder and across midnight find their predictions once, whatever is killed. */
import fc from 'fast-check';
import type { ObjectFacts } from '../../../src/core/aws/storage.ts';
import type { LabelCounts, LabeledRow, LabelValue, PredictionRow } from '../../../src/core/contract/ground-truth.ts';
import { areaOf, ledgerKeys, truthKeys } from '../../../src/core/contract/work-keys.ts';
import { logger } from '../../../src/core/process/logging.ts';
import { joinLabels } from '../../../src/ground-truth/join/join-labels.ts';
import { labeledHours } from '../../../src/ground-truth/join/labeled-store.ts';
import { sameLabel } from '../../../src/ground-truth/label-value.ts';
import { readLabelFiles } from '../../../src/ground-truth/labels/read-files.ts';
import { listFiles, readFiles, removeFiles, writeFile } from '../../../src/ledger/files.ts';
import { hourOf } from '../../../src/quality/tally.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import {
  index,
  LATE_SECOND,
  prediction,
  readAndJoin,
  stepsOn,
  type TruthFacts,
  truthFacts,
} from '../../helpers/ground-truth.ts';
import { storedPredictions } from '../../helpers/prediction-rows.ts';

let memory: MemoryStorage;
afterEach(() => void jest.restoreAllMocks());
beforeEach(() => {
  memory = new MemoryStorage();
  jest.spyOn(Date, 'now').mockReturnValue(NOW_MS);
  for (const level of ['info', 'warn'] as const) jest.spyOn(logger, level).mockImplementation();
});

const FILE_MS = Date.UTC(2026, 10, 25);
const NOW_MS = FILE_MS + 3_600_000;
const HOUR_S = 3_600;

/** Writes a label file. @param age seconds before `FILE_MS` */
function putLabels(name: string, labels: object[], age = 0): ObjectFacts {
  const key = `labels/${name}.jsonl`;
  memory.writtenMs.set(key, FILE_MS - age * 1000);
  return memory.put(key, labels.map((label) => `${JSON.stringify(label)}\n`).join(''));
}
/** Indexes predictions. @param ms when they are written */
async function put(rows: PredictionRow[], ms = NOW_MS): Promise<void> {
  const before = new Set(memory.objects.keys());
  await index(memory.storage, rows);
  for (const key of memory.objects.keys()) if (!before.has(key)) memory.writtenMs.set(key, ms);
}
const ALL = { bucket: 'b', prefix: 'labels/' };
const labelEach = (ids: readonly string[], label: LabelValue = 1): object[] => ids.map((id) => ({ id, label }));

/** S3 that knows when the product wrote an object. */
class DatedStorage extends MemoryStorage {
  override async putBytes(...args: Parameters<MemoryStorage['putBytes']>): Promise<void> {
    this.writtenMs.set(args[1], Date.now());
    return super.putBytes(...args);
  }
}

async function run(): Promise<TruthFacts> {
  await readAndJoin(stepsOn(memory.storage), ALL);
  return truthFacts(memory.storage);
}
const labelsOf = ({ rows }: TruthFacts): Record<string, unknown> =>
  Object.fromEntries(
    rows.map(({ traceId, scorer = '', by = '', label }) => [[traceId, scorer, by].filter(Boolean).join(' '), label]),
  );
const countsOf = ({ reports }: TruthFacts, file = 0): Partial<LabelCounts> =>
  Object.fromEntries(Object.entries(reports[file]?.counts ?? {}).filter(([, count]) => count > 0));

describe('a label', () => {
  test('that comes late is joined to its prediction, also to a row of a call', async () => {
    await put([prediction('a'), prediction('c_1', { row: 1, traceId: 'tr-c', groups: ['young'] })]);
    putLabels('f', [{ id: 'c_1', label: 0 }, ...labelEach(['a'], 'cat')]);
    const facts = await run();
    expect(facts.rows).toEqual([
      { ...prediction('a'), label: 'cat', timeMs: FILE_MS, line: 2 },
      { ...prediction('c_1', { row: 1, traceId: 'tr-c', groups: ['young'] }), label: 0, timeMs: FILE_MS, line: 1 },
    ]);
    expect(countsOf(facts)).toEqual({ lines: 2, joined: 2 });
    expect(facts.waiting).toEqual([]);
    expect([...memory.objects.keys()].filter((key) => key.startsWith(areaOf('truthWaiting')))).toEqual([]);
  });

  test('that comes before its capture waits for it, and one without a capture is unknown after the days', async () => {
    putLabels('f', labelEach(['a', 'b']));
    expect(countsOf(await run())).toEqual({ lines: 2, waiting: 2 });
    await put([prediction('a')]);
    const facts = await run();
    expect(countsOf(facts)).toEqual({ lines: 2, joined: 1, waiting: 1 });
    expect(facts.waiting).toMatchObject([{ id: 'b' }]);
    jest.spyOn(Date, 'now').mockReturnValue(FILE_MS + 400 * 86_400_000);
    expect(countsOf(await run())).toEqual({ lines: 2, joined: 1, waiting: 1 });
    jest.spyOn(Date, 'now').mockReturnValue(FILE_MS + 400 * 86_400_000 + 1);
    expect(countsOf(await run())).toEqual({ lines: 2, joined: 1, unknown: 1 });
    expect((await truthFacts(memory.storage)).waiting).toEqual([]);
  });

  test.each([
    ['the same value', 1, [{ joined: 1 }, { repeated: 1 }], 1],
    ['the same value as text', '1', [{ joined: 1 }, { repeated: 1 }], 1],
    ['another value', 0, [{ joined: 1 }, { replaced: 1 }], 0],
  ])('that comes twice, with %s', async (_, second, expected, label) => {
    await put([prediction('a')]);
    putLabels('1', labelEach(['a']), 60);
    await run();
    putLabels('2', [{ id: 'a', label: second }]);
    const facts = await run();
    expect([countsOf(facts, 0), countsOf(facts, 1)]).toEqual(expected.map((each) => ({ lines: 1, ...each })));
    expect(facts.rows).toMatchObject([{ label, timeMs: FILE_MS, ...(label === 0 && { was: 1 }) }]);
    expect(facts.reports[1]?.replacedLabels).toEqual(label === 0 ? [{ line: 1, id: 'a', from: 1, to: 0 }] : []);
  });

  test('of a file that is older than the one that was joined changes nothing, and the other way round the later counts', async () => {
    await put([prediction('a'), prediction('b')]);
    putLabels('2', labelEach(['a', 'b'], 'new'));
    await run();
    putLabels('1', [...labelEach(['a'], 'old'), ...labelEach(['b'], 'new')], 60);
    const facts = await run();
    expect(countsOf(facts, 0)).toEqual({ lines: 2, outdated: 1, repeated: 1 });
    expect(labelsOf(facts)).toEqual({ 'tr-of-a': 'new', 'tr-of-b': 'new' });
    // A label between the two is still older than the one that counts.
    putLabels('3', [{ id: 'b', label: 'between' }], 30);
    expect(labelsOf(await run())).toEqual({ 'tr-of-a': 'new', 'tr-of-b': 'new' });
  });

  test('that comes several times in a file counts as its last line says', async () => {
    await put([prediction('a')]);
    const labels = [1, '1', 0, 1].map((label) => ({ id: 'a', label }));
    putLabels('f', labels);
    const facts = await run();
    expect(countsOf(facts)).toEqual({ lines: 4, joined: 1, repeated: 1, replaced: 2 });
    expect(facts.rows).toMatchObject([{ label: 1, was: 0, line: 4 }]);
    expect(facts.reports[0]?.replacedLabels).toEqual([
      { line: 3, id: 'a', from: 1, to: 0 },
      { line: 4, id: 'a', from: 0, to: 1 },
    ]);
  });

  test('of pages is replaced like others, and the hour remains readable with hundreds of them', async () => {
    const ids = Array.from({ length: 200 }, (_, i) => `text-${i}`);
    const predictions = ids.map((id) => prediction(id));
    await put(predictions);
    const page = '\u6f22'.repeat(16_000);
    putLabels('a', labelEach(ids, page), 10);
    putLabels('b', [...labelEach(ids, 'short'), ...labelEach(['later'])]);
    await run();
    await put([prediction('later')]);
    const facts = await run();
    expect(countsOf(facts, 1)).toEqual({ lines: 201, joined: 1, replaced: 200 });
    const from = `${'\u6f22'.repeat(99)}…`;
    expect(facts.reports[1]?.replacedLabels[0]).toEqual({ line: 1, id: 'text-0', from, to: 'short' });
    expect(new Set(facts.rows.map(({ was }) => was))).toEqual(new Set([page, undefined]));
  });

  test('that replaces one which MLflow has is to be published again', async () => {
    await put([prediction('a')]);
    putLabels('1', labelEach(['a']), 60);
    await run();
    const { rewriteHour } = jest.requireActual('../../../src/ground-truth/join/labeled-store.ts');
    const noted = async function* (draft: { rows: AsyncIterable<LabeledRow>; changed: boolean }) {
      for await (const row of draft.rows) yield { ...row, noted: true, notNoted: 'EditedByPerson' };
      draft.changed = true;
    };
    await rewriteHour(memory.work, hourOf(LATE_SECOND * 1000), noted);
    putLabels('2', labelEach(['a']), 30);
    expect((await run()).rows).toMatchObject([{ noted: true, notNoted: 'EditedByPerson' }]);
    putLabels('3', [{ id: 'a', label: 0 }]);
    const { rows } = await run();
    expect(rows).toMatchObject([{ noted: false, label: 0, was: 1 }]);
    expect(rows[0]).not.toHaveProperty('notNoted');
  });

  test('of an id at two endpoints is ambiguous, with its line, unless it names one', async () => {
    const other = { endpoint: 'palm-house', traceId: 'tr-other' };
    await put([prediction('a'), prediction('b'), prediction('c')]);
    // In another hour too.
    await put([prediction('a', other), prediction('b', { ...other, second: LATE_SECOND + HOUR_S })]);
    const named = { id: 'a', label: 1, endpoint: 'palm-house' };
    putLabels('f', [...labelEach(['c', 'a']), named, ...labelEach(['b']), { ...named, endpoint: 'x' }]);
    const facts = await run();
    expect(countsOf(facts)).toEqual({ lines: 5, joined: 2, ambiguous: 2, waiting: 1 });
    expect(labelsOf(facts)).toEqual({ 'tr-of-c': 1, 'tr-other': 1 });
    expect(facts.reports[0]).toMatchObject({ reasons: { AmbiguousId: 2 } });
    expect(facts.reports[0]?.faults).toMatchObject([2, 4].map((line) => ({ line, name: 'AmbiguousId' })));
  });

  test('for a scorer is a row of its own for each person', async () => {
    await put([prediction('a')]);
    const safety = { id: 'a', scorer: 'safety', label: 'yes' };
    putLabels('1', [{ id: 'a', label: 1 }, { ...safety, by: 'Ada' }, { ...safety, by: 'Bo' }, safety], 60);
    await run();
    const others = [
      { ...safety, by: 'Bo', label: 'no' },
      { ...safety, scorer: 'fluency', label: 4 },
    ] as const;
    putLabels('2', [...others, ...labelEach(['a'])]);
    const facts = await run();
    expect(labelsOf(facts)).toEqual({
      'tr-of-a': 1,
      'tr-of-a safety': 'yes',
      'tr-of-a safety Ada': 'yes',
      'tr-of-a safety Bo': 'no',
      'tr-of-a fluency': 4,
    });
    expect(countsOf(facts, 1)).toEqual({ lines: 3, replaced: 1, joined: 1, repeated: 1 });
  });

  test('of an id that several predictions have is about all of them, also across midnight, and counts once', async () => {
    const [first, second] = [prediction('a'), prediction('a', { traceId: 'tr-2', second: LATE_SECOND + HOUR_S })];
    await put([first, second]);
    putLabels('f', labelEach(['a']));
    const facts = await run();
    const hours = facts.rows.map(({ second: at }) => hourOf(at * 1000));
    expect(hours.toSorted()).toEqual(['2026-11-20T23', '2026-11-21T00']);
    expect(countsOf(facts)).toEqual({ lines: 1, joined: 1 });
  });

  test('meets a prediction once that is in two hours of the ledger, and one that is in that of its file only', async () => {
    await put([prediction('a')]);
    const ofTime = [...memory.objects.keys()];
    await index(memory.storage, [prediction('a')], 'work', { hour: '2026-11-21T00' });
    putLabels('f', labelEach(['a']), 60);
    expect((await run()).rows).toHaveLength(1);
    for (const key of ofTime) memory.objects.delete(key);
    putLabels('g', [{ id: 'a', label: 0 }]);
    expect(labelsOf(await run())).toEqual({ 'tr-of-a': 0 });
    expect(await labeledHours(memory.work)).toEqual(['2026-11-20T23']);
  });

  test.each(['12', '21'])('of two files of the same second wins by its value, in the order %s too', async (order) => {
    await put([prediction('a')]);
    for (const name of order) {
      putLabels(name, [{ id: 'a', label: `value ${name}` }]);
      await run();
    }
    expect(labelsOf(await truthFacts(memory.storage))).toEqual({ 'tr-of-a': 'value 2' });
  });
});

test('labels of a file that is still being read are not joined', async () => {
  await put([prediction('id-1'), prediction('id-50000')]);
  const ids = Array.from({ length: 50_001 }, (_, n) => `id-${n}`);
  const { key } = putLabels('f', labelEach(ids));
  const deps = stepsOn(memory.storage);
  const putIf = jest.spyOn(memory, 'putIf').mockRejectedValueOnce(new Error('killed'));
  await expect(readLabelFiles({ bucket: 'b', key }, null, deps)).rejects.toThrow('killed');
  putIf.mockRestore();
  const second = jest.spyOn(memory, 'putJsonIf').mockRejectedValueOnce(new Error('killed'));
  await expect(readLabelFiles({ bucket: 'b', key }, null, deps)).rejects.toThrow('killed');
  second.mockRestore();
  await readAndJoin(deps, {});
  expect((await truthFacts(memory.storage)).rows).toEqual([]);
  expect(countsOf(await run())).toEqual({ lines: 50_001, joined: 2, waiting: 49_999 });
});

describe('the ledger', () => {
  const OLD_MS = NOW_MS - 2 * HOUR_S * 1000;
  const TABLES = ['inferences', 'ids/inferences'] as const;

  /** Puts the rows of all files of a day into one. */
  async function merge(remove: boolean): Promise<void> {
    const { work } = memory;
    for (const table of TABLES) {
      const keys = (await Array.fromAsync(listFiles(work, table))).map(({ key }) => key);
      const rows = await Array.fromAsync(readFiles(work, table, keys));
      await writeFile(work, table, '2026-11-20', rows.flat(), keys);
      if (remove) await removeFiles(work, keys);
    }
  }

  test('is read again only where files were written since labels were compared with it', async () => {
    await put([prediction('a')], OLD_MS);
    await put([prediction('c')], OLD_MS);
    putLabels('f', labelEach(['b']));
    await run();
    const getBytes = jest.spyOn(memory, 'getBytes');
    const reads = () => getBytes.mock.calls.filter(([, key]) => key.startsWith(ledgerKeys.table('ids'))).length;
    await run();
    expect(reads()).toBe(0);
    await put([prediction('b')]);
    expect((await run()).waiting).toEqual([]);
    // Of the three files of ids the new one: once to find it, once to join it.
    expect(reads()).toBe(2);
  });

  test.each([true, false])('has each prediction once beside a merge that has removed its parts: %s', async (remove) => {
    for (const id of ['a', 'b', 'c']) await put([prediction(id)]);
    await merge(remove);
    putLabels('f', labelEach(['a', 'b', 'c']));
    const facts = await run();
    expect(countsOf(facts)).toEqual({ lines: 3, joined: 3 });
    expect(facts.rows).toHaveLength(3);
  });

  test.each(TABLES)('is found by a run that listed %s before a merge removed the parts', async (table) => {
    const ids = Array.from({ length: 40 }, (_, n) => `id-${n}`);
    for (const id of ids) await put([prediction(id)]);
    putLabels('f', labelEach(ids));
    const getBytes = memory.getBytes.bind(memory);
    let left = 5;
    jest.spyOn(memory, 'getBytes').mockImplementation(async (bucket, key) => {
      if (key.startsWith(ledgerKeys.table(table))) left -= 1;
      if (left === 0) {
        left = Number.POSITIVE_INFINITY;
        await merge(true);
      }
      return getBytes(bucket, key);
    });
    const facts = await run();
    expect(left).toBe(Number.POSITIVE_INFINITY);
    expect(countsOf(facts)).toEqual({ lines: 40, joined: 40 });
    expect(facts.rows).toHaveLength(40);
  });

  test('says what a model predicted as the row of the highest precedence does, in whichever file it is', async () => {
    for (const [value, precedence] of [2n, 3n, 1n].entries()) {
      const event = { precedence, run: `run-${value}` };
      await index(memory.storage, [prediction('a', { prediction: { value } })], 'work', event);
    }
    putLabels('f', labelEach(['a']));
    expect((await run()).rows).toMatchObject([{ prediction: { value: 1 } }]);
  });

  test('gives each prediction back as it was, in the columns of its kind', async () => {
    const predictions: PredictionRow['prediction'][] = [
      ...[1, 0.5, -2e-7, '0.50', '87%', 'fern', '007', '12345678901234567890', true, false].map((value) => ({ value })),
      { scores: [0.2, 0.8] },
      { value: 'b', scores: [0.25, 0.75], classes: ['a', 'b'] },
      { text: ['exact-hash1', 'plain-hash1'] },
      { value: 'short', scores: [0.9], classes: ['short'], text: ['exact-hash2', 'plain-hash2'] },
    ];
    const rows = predictions.map((one, at) => prediction(`id-${at}`, { prediction: one }));
    rows.push(prediction('grouped', { groups: ['30', null, ''], key: 'v1', row: 7 }));
    await put(rows);
    expect(await storedPredictions(memory.storage)).toEqual(rows);
  });
});

describe('time', () => {
  const manyHours = Array.from({ length: 6 }, (_, n) => prediction(`id-${n}`, { second: LATE_SECOND + n * HOUR_S }));
  /** How often each invocation may ask for its remaining time before there is none. */
  const invocations = (asks: number) => {
    let left = asks;
    return { begin: () => (left = asks), remainingMs: () => (left-- > 0 ? 900_000 : 0) };
  };

  test('that runs out between hours ends an invocation, and the next one resumes', async () => {
    // Of an id in the first hour and in the last one, too.
    const last = prediction('twice', { ...manyHours[5], id: 'twice', traceId: 'tr-2' });
    const all = [prediction('twice'), ...manyHours, last];
    // Long ago: what was not compared is not taken for compared.
    await put(all, NOW_MS - 7_200_000);
    const ids = [...manyHours, prediction('twice')].map(({ id }) => id);
    putLabels('f', labelEach(ids));
    // For each of two days and each prediction that is found, and then for two hours.
    const time = invocations(2 + all.length + 2);
    const deps = stepsOn(memory.storage, {}, time.remainingMs);
    await readLabelFiles(ALL, null, stepsOn(memory.storage));
    let [cursor, times]: [string | null, number] = [null, 0];
    do {
      time.begin();
      ({ cursor } = await joinLabels(cursor, deps));
      times += 1;
    } while (cursor !== null);
    expect(times).toBeGreaterThan(2);
    const facts = await truthFacts(memory.storage);
    expect(countsOf(facts)).toEqual({ lines: 7, joined: 7 });
    expect(facts.rows).toHaveLength(8);
  });

  test('that is never enough to compare a group ends the run by name', async () => {
    await put(manyHours);
    putLabels('f', [{ id: 'id-1', label: 1 }]);
    await readLabelFiles(ALL, null, stepsOn(memory.storage));
    const deps = stepsOn(memory.storage, {}, () => 0);
    const { cursor } = await joinLabels(null, deps);
    await expect(joinLabels(cursor, deps)).rejects.toMatchObject({ name: 'TooManyPredictions' });
  });
});

/** S3 that a function can reach this number of times, until it is killed. */
class Killed extends DatedStorage {
  left = Number.POSITIVE_INFINITY;
  calls = 0;

  constructor() {
    super();
    const reading = ['head', 'read', 'getText', 'getJson', 'getBytes'] as const;
    const names = [...reading, 'putJson', 'putJsonIf', 'putIf', 'putBytes'] as const;
    for (const name of names) {
      const call = this[name].bind(this) as (...args: never[]) => Promise<never>;
      Object.assign(this, { [name]: (...args: never[]) => this.#reach(() => call(...args)) });
    }
    const { send } = this.s3;
    Object.assign(this.s3, { send: (command: Parameters<typeof send>[0]) => this.#reach(() => send(command)) });
  }

  /** The last request reaches S3, and its answer does not come back. */
  async #reach<T>(call: () => Promise<T>): Promise<T> {
    this.calls += 1;
    this.left -= 1;
    if (this.left === 0) await call();
    if (this.left <= 0) throw new Error('killed');
    return call();
  }
}

type Act =
  | { kind: 'index'; rows: PredictionRow[] }
  | { kind: 'labels'; name: string; labels: object[]; age: number }
  | { kind: 'run' };

/** Does what happens, in order. Where `kills` says so, a run is killed after that many requests, and repeated. */
async function happen(acts: readonly Act[], kills: readonly number[] = []) {
  const killed = new Killed();
  memory = killed;
  let runs = 0;
  for (const act of acts) {
    if (act.kind === 'index') await put(act.rows);
    else if (act.kind === 'labels') putLabels(act.name, act.labels, act.age);
    else {
      killed.left = kills[runs] ?? Number.POSITIVE_INFINITY;
      runs += 1;
      await readAndJoin(stepsOn(memory.storage), ALL).catch((error: Error) => {
        if (killed.left > 0) throw error;
      });
      killed.left = Number.POSITIVE_INFINITY;
      await readAndJoin(stepsOn(memory.storage), ALL);
    }
  }
  return { facts: await truthFacts(memory.storage), memory: killed };
}

/** Every hour is marked, for as long as its labels are not published. */
async function unmarked(): Promise<string[]> {
  const hours = await labeledHours(memory.work);
  const etags = await Promise.all(
    hours.map(async (hour) => (await memory.head('work', truthKeys.labeled(hour)))?.etag),
  );
  return hours.filter((hour, at) => !memory.objects.has(truthKeys.toPublish(hour, etags[at] ?? '')));
}

const twoDays: Act[] = [
  { kind: 'index', rows: ['a', 'b', 'c'].map((id) => prediction(id)) },
  { kind: 'index', rows: [1, 2, 3].map((n) => prediction('a', { second: LATE_SECOND - HOUR_S, traceId: `tr-${n}` })) },
  {
    kind: 'index',
    rows: [prediction('c', { traceId: 'tr-c2', second: LATE_SECOND + HOUR_S }), prediction('d', { endpoint: 'x' })],
  },
  { kind: 'labels', name: '1', age: 90, labels: labelEach(['a', 'b', 'c', 'd', 'e', 'f']) },
  { kind: 'run' },
  { kind: 'index', rows: [prediction('d', { traceId: 'tr-d2' }), prediction('e', { second: LATE_SECOND + HOUR_S })] },
  { kind: 'labels', name: '2', age: 60, labels: [...labelEach(['a'], 0), ...labelEach(['b', 'd']), {}] },
  { kind: 'labels', name: '0', age: 120, labels: [...labelEach(['a'], 2), ...labelEach(['e'], 3)] },
  { kind: 'run' },
];

test('a run that is killed at any request and repeated has the same result as an undisturbed one', async () => {
  const { facts, memory } = await happen(twoDays);
  const sums = facts.reports.map(({ counts: { lines, ...all } }) => [
    lines,
    Object.values(all).reduce((a, b) => a + b),
  ]);
  expect(sums).toEqual([2, 6, 4].map((lines) => [lines, lines]));
  for (let first = 1; first < memory.calls; first += 1) {
    const disturbed = await happen(twoDays, [first, (first * 7) % 60]);
    expect({ first, facts: disturbed.facts }).toEqual({ first, facts });
    expect(await unmarked()).toEqual([]);
  }
});

const ID = fc.constantFrom('a', 'b', 'c', 'd');
const ROWS = fc.array(
  fc.record({ id: ID, at: fc.integer({ min: 0, max: 2 }), place: fc.constantFrom('fern-house', 'fern-house', 'x') }),
  { maxLength: 5 },
);
const ACT: fc.Arbitrary<Act> = fc.oneof(
  ROWS.map((rows) => ({
    kind: 'index' as const,
    rows: rows.map(({ id, at, place }) =>
      prediction(id, { endpoint: place, second: LATE_SECOND + at * HOUR_S, traceId: `tr-${id}-${place}-${at}` }),
    ),
  })),
  fc.record({
    kind: fc.constant('labels' as const),
    name: fc.constantFrom('1', '2', '3'),
    age: fc.nat(3),
    labels: fc.array(
      fc.record({
        id: ID,
        label: fc.constantFrom(1, '1', 0, 'x'),
        scorer: fc.option(fc.constant('s'), { nil: undefined, freq: 4 }),
      }),
      { maxLength: 5 },
    ),
  }),
  fc.constant({ kind: 'run' as const }),
);

test('whatever happens in whatever order: kills change nothing, lines add up, and of each prediction the latest label counts', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(ACT, { minLength: 3, maxLength: 9 }),
      fc.array(fc.integer({ min: 1, max: 60 })),
      async (acts, kills) => {
        const all: Act[] = [...acts, { kind: 'run' }];
        const { facts } = await happen(all);
        const disturbed = await happen(all, kills);
        expect(disturbed.facts).toEqual(facts);
        expect(await unmarked()).toEqual([]);
        for (const { counts } of facts.reports) {
          const { lines, ...rest } = counts;
          expect(Object.values(rest).reduce((a, b) => a + b, 0)).toBe(lines);
        }
        const joined = facts.reports.reduce((sum, report) => sum + report.counts.joined, 0);
        expect(joined).toBeLessThanOrEqual(facts.rows.length);
        expect(new Set(facts.rows.map(({ traceId, scorer }) => `${traceId} ${scorer}`)).size).toBe(facts.rows.length);
        expect(facts.waiting.length).toBe(facts.reports.reduce((sum, report) => sum + report.counts.waiting, 0));
      },
    ),
    { numRuns: 60 },
  );
});

test('two runs at once join each label once', async () => {
  for (let round = 0; round < 10; round += 1) {
    memory = new MemoryStorage();
    const second = (at: number) => LATE_SECOND + (at % 2) * HOUR_S;
    const predictions = ['a', 'b', 'c', 'd'].map((id, at) => prediction(id, { second: second(at) }));
    await index(memory.storage, predictions);
    for (const name of ['1', '2', '3']) putLabels(name, labelEach(['a', 'b', 'c', 'e'], name), Number(name));
    // S3 answers in no order.
    const slow = <T extends (...args: never[]) => Promise<unknown>>(call: T) =>
      (async (...args: Parameters<T>) => {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
        return call(...args);
      }) as unknown as T;
    for (const name of ['getBytes', 'putIf', 'putJsonIf', 'head', 'getJson'] as const) {
      Object.assign(memory, { [name]: slow(memory[name].bind(memory) as never) });
    }
    await Promise.all([run(), run()]);
    const facts = await run();
    const sum = (name: keyof LabelCounts): number =>
      facts.reports.reduce((total, report) => total + report.counts[name], 0);
    expect([sum('joined'), sum('waiting'), sum('lines')]).toEqual([3, 3, 12]);
    expect(facts.rows).toHaveLength(3);
    // Of the file that was written last.
    expect(facts.rows.every(({ label }) => sameLabel(label, '1'))).toBe(true);
  }
});
