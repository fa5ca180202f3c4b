/** What became of lines: a run says what it did itself, whatever others do later, and all together say which row counts. */
import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { LineName, RowQuery } from '../../../src/ledger/what-became.ts';
import { filesOfRun, storyOfLine } from '../../../src/ledger/what-became.ts';
import { OwnLimit } from '../../../src/limits/spending-limit.ts';
import { mergeLedger } from '../../../src/quality/merge-ledger.ts';
import { ChunkRig, JUDGED, LINES } from '../../helpers/chunk-rig.ts';

const KEY = 'e/Blue/2026/11/20/10/a.jsonl';
const WITH_FAULTS = [...LINES, LINES[0] ?? '', '{"cut'];
const TRACE = traceIdOf('7', Buffer.from(LINES[0] ?? ''));
const FIRST = { key: KEY, line: 1 };

let rig: ChunkRig;
beforeEach(() => {
  rig = new ChunkRig();
});
const work = () => ({ storage: rig.storage.storage, workBucket: 'work' });
const story = (name: LineName = FIRST, query: RowQuery = {}) => storyOfLine(work(), name, query);
const scorerOf = async (query: RowQuery = {}) =>
  (await story(FIRST, query))?.verdicts.find(({ scorer }) => scorer === JUDGED);

test('the files of a run are what it did, also after other runs and a merge', async () => {
  const faults = { outcomes: { traced: 8, duplicate: 1, quarantined: 1 }, reasons: { NotJson: 1 }, lines: 10 };
  await rig.evaluate(rig.request('one', {}, 0, WITH_FAULTS));
  const ofOne = await filesOfRun(work(), { run: 'one' });
  expect([...ofOne]).toEqual([[expect.stringMatching(`/${KEY}$`), faults]]);
  // A person deletes a trace.
  rig.store.assessments.delete(TRACE);
  await rig.evaluate(rig.request('two', { reevaluate: true }, 0, WITH_FAULTS));
  await mergeLedger(work(), {
    measures: [],
    nowMs: Date.now() + 2 * 3_600_000,
    hasTime: () => true,
    skipped: () => expect('a day').toBe('merged'),
  });
  expect(await filesOfRun(work(), { run: 'one' })).toEqual(ofOne);
  const [ofTwo] = (await filesOfRun(work(), { run: 'two' })).values();
  expect(ofTwo?.outcomes).toEqual({ alreadyThere: 7, missing: 1, duplicate: 1, quarantined: 1 });
  expect((await filesOfRun(work(), { run: 'three' })).size).toBe(0);
});

const GIVEN = expect.objectContaining({ state: 'given' });

test.each([
  ['a capture', 1, { outcome: 'traced', traceId: TRACE }],
  ['a line twice', 9, { outcome: 'duplicate', traceId: TRACE, verdicts: [GIVEN, GIVEN, GIVEN] }],
  ['a line that is cut off', 10, { outcome: 'quarantined', reason: 'NotJson', verdicts: [] }],
])('%s', async (_, line, expected) => {
  await rig.evaluate(rig.request('one', {}, 0, WITH_FAULTS));
  expect(await story({ key: KEY, line })).toMatchObject({ key: KEY, line, run: 'one', runs: ['one'], ...expected });
});

test('a line or a trace that no row is about', async () => {
  await rig.evaluate(rig.request('one'));
  expect(await story({ key: KEY, line: 99 })).toBeUndefined();
  expect(await story({ traceId: 'tr-0' })).toBeUndefined();
  expect(await story(FIRST, { run: 'two' })).toBeUndefined();
  expect(await story(FIRST, { lastDay: '2026-11-19' })).toBeUndefined();
});

test('each run says what it did for a scorer, and the endpoint what counts', async () => {
  await rig.evaluate(rig.request('one'), { limit: new OwnLimit(0) });
  expect(await scorerOf()).toMatchObject({ state: 'held' });
  await rig.evaluate(rig.request('two', { continues: ['one'] }));
  await rig.evaluate(rig.request('three'));
  expect(await scorerOf({ run: 'one' })).toMatchObject({ state: 'held' });
  expect(await scorerOf({ run: 'two' })).toMatchObject({ state: 'given', value: 'yes' });
  expect(await scorerOf({ run: 'three' })).toMatchObject({ state: 'there before', value: 'yes' });
  expect(await story({ traceId: TRACE })).toMatchObject({ runs: expect.arrayContaining(['one', 'two', 'three']) });
  expect(await scorerOf()).toMatchObject({ value: 'yes' });
});

test('why a scorer has no verdict', async () => {
  rig.isAway = true;
  await rig.failed(rig.request('one'));
  expect(await scorerOf()).toMatchObject({ state: 'failed' });
  await rig.evaluate(rig.request('two', { sampleRate: 0 }));
  expect(await scorerOf({ run: 'two' })).toMatchObject({ state: 'notJudged', reason: 'notSampled' });
});
