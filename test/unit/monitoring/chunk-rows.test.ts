/** The rows of the ledger that attempts at chunks write: all together have each capture once, with its verdict in force. */

import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { QualityCell } from '../../../src/core/contract/quality.ts';
import { PermanentError, RetryableError } from '../../../src/core/errors/errors.ts';
import { OwnLimit } from '../../../src/limits/spending-limit.ts';
import { JUDGE_COST } from '../../../src/mlflow/types.ts';
import { scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { chunkOf, rangeOf } from '../../helpers/chunk-request.ts';
import { ChunkRig, HOUR, JUDGED, LINES } from '../../helpers/chunk-rig.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { ledgerRows } from '../../helpers/ledger-rows.ts';

const idOf = (line = ''): string => traceIdOf('7', Buffer.from(line));
const DENIED = new PermanentError('MlflowAccessDenied', 'denied');

/** Returns the request of a chunk over a file of its own. */
const chunkIn = (rig: ChunkRig, file: string, chunk: number, lines: readonly string[], run = 'one'): ChunkRequest => ({
  ...rig.request(run, {}, 0, lines as string[]),
  chunk: chunkOf([rangeOf(rig.storage, `e/Blue/2026/11/20/10/${file}`, lines)], { chunk }),
});

const numbersIn = (tree: object): number[] =>
  Object.values(tree).flatMap((value) => (typeof value === 'number' ? [value] : numbersIn(value)));

/** What MLflow has: traces, verdicts in force by scorer and value, and dollars. */
function inMlflow({ store }: ChunkRig) {
  const all = [...store.assessments.values()].map((own) => {
    // An error overrides no verdict.
    const overridden = new Set(own.filter(({ error }) => !error).map(({ overrides }) => overrides));
    return own.filter(({ assessmentId }) => !overridden.has(assessmentId));
  });
  const values: Record<string, number> = {};
  for (const { name, value } of all.flat())
    if (name === JUDGED && value) values[`${value}`] = (values[`${value}`] ?? 0) + 1;
  return { captures: store.assessments.size, values };
}
const inCounts = ({ captures = 0, scorers = {} }: QualityCell) => {
  const [one = {}, ...others] = Object.values(scorers[JUDGED] ?? {});
  expect(others).toEqual([]);
  return { captures, values: one.values ?? {} };
};
const costsIn = ({ store }: ChunkRig): number =>
  [...store.assessments.values()].flat().reduce((sum, { metadata }) => sum + Number(metadata[JUDGE_COST] ?? 0), 0);

const failAfter = (rig: ChunkRig, posts: number): void => {
  let made = 0;
  rig.store.fault = () => {
    made += 1;
    if (made > posts) throw DENIED;
  };
};
const well = (rig: ChunkRig): void => {
  rig.store.fault = () => undefined;
};

test.each<[string, (rig: ChunkRig) => Promise<unknown>]>([
  ['new lines, one of them twice', (rig) => rig.evaluate(rig.request('one', {}, 0, [...LINES, LINES[0] ?? '']))],
  [
    'a second run over the same file',
    async (rig) => {
      await rig.evaluate(rig.request('one'));
      await rig.evaluate(rig.request('two'));
    },
  ],
  [
    'a file and its copy, in two chunks of one run at once',
    async (rig) => {
      rig.store.between = () => new Promise((resolve) => setTimeout(resolve, 2));
      const both = ['a.jsonl', 'copy.jsonl'].map((file, n) => rig.evaluate(chunkIn(rig, file, n, LINES)));
      const quality = await Promise.all(both);
      expect(quality.reduce((sum, { captures = 0 }) => sum + captures, 0)).toBe(8);
    },
  ],
  [
    'a file and its copy, in two runs at once',
    async (rig) => {
      rig.store.between = () => new Promise((resolve) => setTimeout(resolve, 2));
      await Promise.all(['one', 'two'].map((run) => rig.evaluate(chunkIn(rig, `${run}.jsonl`, 0, LINES, run))));
    },
  ],
  [
    'two re-evaluations at once, of a file and its copy',
    async (rig) => {
      await rig.evaluate(rig.request('one'));
      rig.value = 'no';
      rig.store.between = () => new Promise((resolve) => setTimeout(resolve, 2));
      const anew = (run: string) => {
        const request = chunkIn(rig, `${run}.jsonl`, 0, LINES, run);
        return rig.evaluate({ ...request, options: { ...request.options, reevaluate: true } });
      };
      await Promise.all(['two', 'three'].map(anew));
    },
  ],
  [
    'a run that has read verdicts before a re-evaluation replaced them',
    async (rig) => {
      await rig.evaluate(rig.request('one'));
      rig.value = 'no';
      const read = rig.store.getTraces;
      rig.store.getTraces = async (...given) => {
        rig.store.getTraces = read;
        const found = await read(...given);
        await rig.evaluate(rig.request('anew', { reevaluate: true }));
        return found;
      };
      await rig.evaluate(rig.request('two'));
    },
  ],
  [
    'a re-evaluation that fails for some, and one that is held',
    async (rig) => {
      await rig.evaluate(rig.request('one'));
      const { judge } = scriptedJudge((_, text) =>
        text.includes('line 3') ? told('I would rather not.') : told(JSON.stringify({ [JUDGED]: { value: 'no' } })),
      );
      await rig.evaluate(rig.request('two', { reevaluate: true }), { judge });
      await rig.evaluate(rig.request('three', { reevaluate: true }), { limit: new OwnLimit(0) });
    },
  ],
  [
    'a budget that held all verdicts, and a retry',
    async (rig) => {
      const held = await rig.evaluate(rig.request('one'), { limit: new OwnLimit(0) });
      expect([held.notJudged?.[JUDGED], rig.cell.notJudged?.[JUDGED]]).toEqual([{ held: 8 }, { held: 8 }]);
      await rig.evaluate(rig.request('two', { continues: ['one'] }));
      expect(rig.cell.notJudged?.[JUDGED]).toBeUndefined();
    },
  ],
  [
    'a judge that failed, and the next attempt',
    async (rig) => {
      rig.isAway = true;
      await rig.failed(rig.request('one'));
      expect(rig.cell.notJudged?.[JUDGED]).toEqual({ failed: 8 });
      rig.isAway = false;
      await rig.evaluate(rig.request('one', {}, 1));
      expect(rig.cell.notJudged?.[JUDGED]).toBeUndefined();
    },
  ],
  [
    'a storage that takes no rows, and the next attempt',
    async (rig) => {
      const { putBytes } = rig.storage;
      rig.storage.putBytes = () => Promise.reject(new RetryableError('StorageUnavailable', 'S3'));
      await expect(rig.evaluate(rig.request('one'))).rejects.toMatchObject({ name: 'StorageUnavailable' });
      rig.storage.putBytes = putBytes;
      await rig.evaluate(rig.request('one', {}, 1));
    },
  ],
  [
    'a trace that MLflow refuses, which a retry writes',
    async (rig) => {
      rig.store.refuses.add(idOf(LINES[2]));
      await rig.evaluate(rig.request('one', {}, 0, [...LINES, LINES[2] ?? '']));
      expect(rig.cell).toMatchObject({ captures: 7, quarantined: { MlflowRefused: 1 } });
      rig.store.refuses.clear();
      await rig.evaluate(rig.request('two', { continues: ['one'] }));
      expect(rig.cell.quarantined).toBeUndefined();
    },
  ],
  [
    'a smaller limit on lines, which takes no capture away',
    async (rig) => {
      await rig.evaluate(rig.request('one'));
      const { chunk, ...request } = rig.request('two', { window: { toMs: 1 } });
      await rig.evaluate({ ...request, chunk });
    },
  ],
])('%s: the counts are what MLflow has', async (_, work) => {
  const rig = new ChunkRig();
  await work(rig);
  const { captures, values } = inMlflow(rig);
  expect(captures).toBe(8);
  expect(inCounts(rig.cell)).toEqual({ captures, values });
  expect(rig.cell.judgeUsd).toBeCloseTo(costsIn(rig), 8);
  expect(numbersIn(rig.cell).every((count) => count >= 0)).toBe(true);
});

test.each([42, 19, 0])('a run whose token expires after %i posts is whole after its retry', async (posts) => {
  const rig = new ChunkRig();
  const lines = Array.from({ length: 48 }, (_, n) => chatLine(`plant ${n}`));
  failAfter(rig, posts);
  await rig.failed(rig.request('one', {}, 0, lines));
  const found = rig.cell.captures ?? 0;
  expect(found).toBe(rig.store.posts.length);
  well(rig);
  await rig.evaluate(rig.request('two', { continues: ['one'] }, 0, lines));
  expect(inCounts(rig.cell)).toEqual({ captures: 48, values: { yes: 48 } });
  expect(rig.cell.judgeUsd).toBeCloseTo(costsIn(rig), 8);
});

test('what a person deletes or edits changes no count', async () => {
  const rig = new ChunkRig();
  await rig.evaluate(rig.request('one'));
  const before = rig.cell;
  rig.store.assessments.delete(idOf(LINES[0]));
  const first = rig.store.assessments.get(idOf(LINES[1])) ?? [];
  first.splice(0, 1);
  const edited = rig.store.assessments.get(idOf(LINES[2]))?.find(({ name }) => name === JUDGED);
  Object.assign(edited ?? {}, { value: 'no', isEdited: true });
  for (const [run, options] of [
    ['retry', { continues: ['one'] }],
    ['two', {}],
    ['log', { evaluate: false }],
  ] as const) {
    const request = rig.request(run, options as Partial<ChunkRequest['options']>);
    await (run === 'log' ? rig.log(request) : rig.evaluate(request));
    const { captures, scorers } = rig.cell;
    expect({ captures, scorers }).toEqual({ captures: before.captures, scorers: before.scorers });
  }
});

test('answers that cannot be used are in the dollars', async () => {
  const rig = new ChunkRig();
  const { judge } = scriptedJudge((_, text) =>
    /line [0-3]/.test(text) ? told('I would rather not.') : told(JSON.stringify({ [JUDGED]: { value: 'yes' } })),
  );
  const quality = await rig.evaluate(rig.request('one'), { judge });
  expect(rig.cell).toMatchObject({
    notJudged: { [JUDGED]: { failed: 4 } },
    scorers: { [JUDGED]: { 1: { values: { yes: 4 } } } },
  });
  expect([quality.judgeUsd, rig.cell.judgeUsd]).toEqual(Array(2).fill(expect.closeTo(costsIn(rig), 8)));
});

test('a failure to write rows hides no other, and a later run writes what it finds', async () => {
  const rig = new ChunkRig();
  const { putBytes } = rig.storage;
  rig.storage.putBytes = () => Promise.reject(new RetryableError('StorageUnavailable', 'S3'));
  failAfter(rig, 3);
  await expect(rig.evaluate(rig.request('one'))).rejects.toMatchObject({ name: 'MlflowAccessDenied' });
  rig.storage.putBytes = putBytes;
  well(rig);
  await rig.evaluate(rig.request('two'));
  expect(inCounts(rig.cell)).toEqual({ captures: 8, values: { yes: 8 } });
});

test('rows tell where a line is, which hour it belongs to, and whether it was traffic of users', async () => {
  const rig = new ChunkRig();
  const lines = [
    '2024-01-01T09:30:00Z',
    '2025-12-01T09:30:00Z',
    `${HOUR}:30:00Z`,
    '2026-11-21T09:30:00Z',
    '2027-01-01T00:00:00Z',
  ];
  const made = lines.map((time, n) => chatLine(`t${n}`, time));
  await rig.log(rig.request('one', { evaluate: false }, 0, [...made, 'no capture']));
  await rig.log(rig.request('replayed', { replay: { run: 'r', experimentId: '7' }, evaluate: false }, 0, ['{}']));
  const { captures } = await ledgerRows(rig.storage.storage, 'work');
  const ofRun = (run: string) =>
    captures.filter((row) => row.run === run).toSorted((a, b) => (a.start ?? 0) - (b.start ?? 0));
  expect(ofRun('one').map(({ hour, outcome, traceId }) => [hour, outcome, traceId])).toEqual([
    [HOUR, 'traced', idOf(made[0])],
    ['2025-12-01T09', 'traced', idOf(made[1])],
    [HOUR, 'traced', idOf(made[2])],
    ['2026-11-21T09', 'traced', idOf(made[3])],
    [HOUR, 'traced', idOf(made[4])],
    [HOUR, 'quarantined', undefined],
  ]);
  expect(ofRun('one')[1]).toMatchObject({
    ...{ key: 'e/Blue/2026/11/20/10/a.jsonl', bucket: 'b', variant: 'Blue', experimentId: '7', format: 'chat' },
    ...{ start: `${made[0]}\n`.length, serving: true, chunk: 0, attempt: 0, time: Date.parse('2025-12-01T09:30:00Z') },
  });
  expect(ofRun('replayed').map(({ serving }) => serving)).toEqual([false]);
});

test('a line that is there already gets all that MLflow and the line say', async () => {
  const rig = new ChunkRig();
  await rig.evaluate(rig.request('one'));
  await rig.log(rig.request('two', { evaluate: false }));
  const { captures, verdicts } = await ledgerRows(rig.storage.storage, 'work');
  const of = <T extends { run?: string; start?: number; scorer?: string }>(rows: T[], run: string): T[] =>
    rows
      .filter((row) => row.run === run)
      .toSorted((a, b) => (a.start ?? 0) - (b.start ?? 0) || `${a.scorer}`.localeCompare(`${b.scorer}`));
  const bare = (rows: object[]) =>
    rows.map((row) => ({ ...row, run: '', chain: '', precedence: 0n, found: true, usd: 0, outcome: '' }));
  expect(bare(of(verdicts, 'two'))).toEqual(bare(of(verdicts, 'one')));
  const ofEvaluation = ['evaluated', 'sample', 'rule', 'judgeable', 'strata', 'unmeasured', 'notJudged', 'reasons'];
  const evaluation = Object.fromEntries(ofEvaluation.map((name) => [name, 0]));
  const facts = (run: string) => bare(of(captures, run)).map((row) => ({ ...row, ...evaluation }));
  expect(facts('two')).toEqual(facts('one'));
  expect(of(verdicts, 'two').every(({ found, usd }) => found && usd === 0)).toBe(true);
});
