/** What runs count of the same captures: whatever happens to an attempt, the rows of all runs together say what MLflow has. */

import { inSample, traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { QualityCell, QualityCounts } from '../../../src/core/contract/quality.ts';
import { PermanentError } from '../../../src/core/errors/errors.ts';
import { binOf } from '../../../src/core/statistics/log-bins.ts';
import { cascade } from '../../../src/judge/cascade.ts';
import { chancesOf } from '../../../src/judge/scorers/chances.ts';
import { addTree, maxByMagnitude } from '../../../src/quality/count-tree.ts';
import { sumOfCells } from '../../../src/quality/counts-store.ts';
import { outcomesIn } from '../../../src/quality/outcomes.ts';
import { RunSums } from '../../../src/quality/run-sums.ts';
import {
  captureSample,
  chanceOf,
  laterSample,
  scorerSample,
  stratumOf,
  stratumOfTrace,
} from '../../../src/quality/sample.ts';
import type { CountedCapture, CountedVerdict } from '../../../src/quality/tally.ts';
import { scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { ChunkRig, CODE, HOUR, JUDGED, LINES, LLM } from '../../helpers/chunk-rig.ts';
import {
  captureLine,
  chatLine,
  chatReply,
  chatRequest,
  csv,
  json,
  type Side,
} from '../../helpers/deployed-captures.ts';
import { ledgerRows } from '../../helpers/ledger-rows.ts';
import { countsOf } from '../../helpers/observed.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const judged = (yes: number, no = 0, sample = '1', captures = LINES.length) => ({
  [sample]: {
    ...(captures > 0 && { captures }),
    values: { ...(yes === 0 ? {} : { yes }), ...(no === 0 ? {} : { no }) },
    versions: { [VERSION]: yes + no },
  },
});
/** The judge and the version of its question, as the counts name them. */
const VERSION = '0c4cff35';

test('a second run over the same captures counts nothing, and neither does the repetition of the first', async () => {
  const rig = new ChunkRig();
  const first = await rig.evaluate(rig.request('one'));
  expect(first).toMatchObject({ captures: 8, scorers: { [JUDGED]: judged(8) } });
  expect(first.scorers?.cut_off).toEqual({ all: { values: { false: 8 } } });
  expect(first.scorers?.response_words?.all?.numbers).toEqual({ bins: { [binOf(11)]: 8 }, sum: 88, squares: 8 * 121 });
  expect(first.judgeUsd).toBeGreaterThan(0);
  expect(await rig.evaluate(rig.request('two'))).toEqual({});
  // A re-driven attempt reports the same again, in place of its first receipt.
  const again = await rig.evaluate(rig.request('one', {}, 1));
  expect(JSON.parse(JSON.stringify(again))).toEqual(JSON.parse(JSON.stringify(first)));
});

test('what a killed attempt has written is counted by the next one', async () => {
  const rig = new ChunkRig();
  await rig.killed(rig.request('one'));
  const next = await rig.evaluate(rig.request('one', {}, 1));
  expect(next).toMatchObject({ captures: 8, scorers: { [JUDGED]: judged(8) } });
});

test('a re-evaluation replaces the old value, also if its first attempt was killed', async () => {
  const rig = new ChunkRig();
  await rig.evaluate(rig.request('one'));
  rig.value = 'no';
  await rig.killed(rig.request('two', { reevaluate: true }));
  const second = await rig.evaluate(rig.request('two', { reevaluate: true }, 1));
  expect(second.scorers?.[JUDGED]).toEqual(judged(0, 8, '1', 0));
  expect(second.captures).toBeUndefined();
  const both = rig.cell;
  expect([both.captures, both.scorers?.[JUDGED]]).toEqual([8, judged(0, 8)]);
  // The first run, which is redriven, says nothing about what replaced its verdicts.
  await rig.evaluate(rig.request('one', {}, 1));
  expect(rig.cell.scorers).toEqual(both.scorers);
});

test.each([
  ['a trace', undefined, 5],
  ['a verdict of a trace that exists', 'traces', undefined],
])(
  'what MLflow has taken when it denies %s is counted by the attempt that fails, and not again',
  async (_, before, captures) => {
    const rig = new ChunkRig();
    if (before !== undefined) await rig.log(rig.request(before, { evaluate: false }));
    let writes = 0;
    rig.store.fault = () => {
      writes += 1;
      if (writes > 5) throw new PermanentError('MlflowAccessDenied', 'denied');
    };
    const lines = [...LINES, ...LINES];
    const failed = await rig.failed(rig.request('one', {}, 0, lines));
    expect(failed.scorers?.[JUDGED]).toEqual(judged(5, 0, '1', captures ?? 0));
    expect(failed.captures).toBe(captures);
    rig.store.fault = () => undefined;
    await rig.evaluate(rig.request('two', { continues: ['one'] }, 0, lines));
    expect(rig.cell).toMatchObject({ captures: 8, scorers: { [JUDGED]: judged(8) } });
  },
);

test.each([
  ['a retry', { continues: ['one'] }],
  ['another run', {}],
])('verdicts that follow in %s add to the stratum that the capture belongs to', async (_, more) => {
  const rig = new ChunkRig();
  rig.isAway = true;
  await rig.failed(rig.request('one', { sampleRate: 0.5 }));
  const drawn = LINES.filter((line) => inSample(traceIdOf('7', Buffer.from(line)), 0.5)).length;
  expect(drawn).toBeGreaterThan(0);
  expect(rig.cell).toMatchObject({
    captures: 8,
    notJudged: { [JUDGED]: { notSampled: 8 - drawn, failed: drawn } },
    scorers: { [JUDGED]: { '0.5': { captures: 8 } } },
  });
  rig.isAway = false;
  const retry = await rig.evaluate(rig.request('two', { sampleRate: 1, ...more }));
  expect(retry).toMatchObject({ scorers: { [JUDGED]: { '0.5': { values: { yes: 8 } } } } });
  expect(retry.notJudged).toBeUndefined();
  const both = rig.cell;
  expect([both.scorers?.[JUDGED], both.notJudged]).toEqual([judged(8, 0, '0.5'), undefined]);
  // Each verdict says how likely its capture was judged, which for all of them was certain.
  const verdicts = LINES.flatMap((line) => rig.store.assessments.get(traceIdOf('7', Buffer.from(line))) ?? []);
  const ofJudge = verdicts.filter(({ name, value }) => name === JUDGED && value !== undefined);
  expect(ofJudge.map(({ metadata }) => [metadata['monitoring.sample'], metadata['monitoring.part']])).toEqual(
    LINES.map(() => ['1', '0.5']),
  );
});

test('captures that an always rule chooses are a part of their own', async () => {
  const rig = new ChunkRig();
  const always = () => 'rule';
  const cell = await rig.evaluate(rig.request('one', { sampleRate: 0 }), { always });
  expect(cell.scorers?.[JUDGED]).toEqual(judged(8, 0, 'always'));
  const { captures } = await ledgerRows(rig.storage.storage, 'work');
  expect(captures.map(({ sample, rule }) => [sample, rule])).toEqual(LINES.map(() => ['always', 'rule']));
});

test('captures that were only traced are judged later, by the run that evaluates them', async () => {
  const rig = new ChunkRig();
  const counted = { captures: 8, inputTokens: 240, outputTokens: 96, replies: { words: { all: 8 } } };
  const traced = { ...counted, digests: expect.anything() };
  expect(await rig.log(rig.request('one', { evaluate: false }))).toEqual(traced);
  expect(await rig.log(rig.request('one', { evaluate: false }, 1))).toEqual(traced);
  expect(await rig.log(rig.request('two', { evaluate: false }))).toEqual({});
  const cell = await rig.evaluate(rig.request('three'));
  expect(cell.captures).toBeUndefined();
  expect(cell.scorers?.[JUDGED]).toEqual(judged(8, 0, '1', 0));
  expect(await rig.evaluate(rig.request('four'))).toEqual({});
  expect(rig.cell).toMatchObject({ captures: 8, scorers: { [JUDGED]: judged(8) } });
});

test('errors by kind, quarantine by reason, and predictions', async () => {
  const line = (name: string, request: Side, reply: Side) => captureLine(name, `${HOUR}:30:00Z`, request, reply);
  const asked = json(chatRequest('Q?'));
  const lines = [
    line('good', asked, json(chatReply('Yes.'))),
    line('status', asked, json({ error: { message: 'Too many requests', code: 429 } })),
    line('name', asked, json({ error: { message: 'The model is broken', type: 'ModelError' } })),
    line('numbers', csv('1,2\n3,4\n5,6'), csv('0.5\n0.25\n0.25')),
    line('classes', json({ instances: [1, 2] }), json({ predictions: ['cat', 'dog'] })),
    '{"no": "capture"}',
  ];
  const numbers = (...all: number[]) => {
    const bins: Record<string, number> = {};
    for (const one of all) addTree(bins, { [binOf(one)]: 1 });
    return { bins, sum: all.reduce((sum, one) => sum + one), squares: all.reduce((sum, one) => sum + one * one, 0) };
  };
  const expected = {
    captures: 5,
    errorReplies: 2,
    errorKinds: { 429: 1, ModelError: 1 },
    quarantined: { NotACaptureRecord: 1 },
    predictions: { numbers: numbers(0.5, 0.25, 0.25), classes: { cat: 1, dog: 1 } },
  };
  const rig = new ChunkRig();
  expect(await rig.evaluate(rig.request('one', {}, 0, lines))).toMatchObject(expected);
  expect(await rig.evaluate(rig.request('one', {}, 1, lines))).toMatchObject(expected);
  const traced = new ChunkRig();
  expect(await traced.log(traced.request('one', { evaluate: false }, 0, lines))).toMatchObject(expected);
});

test('replies that say nothing, and captures that no scorer applies to', async () => {
  const line = (name: string, request: Side, reply: Side) => captureLine(name, `${HOUR}:30:00Z`, request, reply);
  const asked = json(chatRequest('Q?'));
  const lines = [
    line('words', asked, json(chatReply('Yes.'))),
    line('empty', asked, json(chatReply(' '))),
    line('error', asked, json({ error: { message: 'Too many requests', code: 429 } })),
    line('detector', json({ image: 'x' }), json([])),
    line('boxes', json({ image: 'x' }), json({ boxes: [{ left: 1 }] })),
    line('rows', csv('1,2\n3,4'), csv('0.5\n0.25')),
  ];
  const rig = new ChunkRig();
  const cell = await rig.evaluate(rig.request('one', {}, 0, lines));
  expect(cell).toMatchObject({
    captures: 6,
    errorReplies: 1,
    replies: { words: { all: 2, empty: 1 }, values: { all: 2, empty: 1 } },
    unmeasured: 2,
    notJudged: { [JUDGED]: { emptyReply: 1, errorReply: 1, notText: 3 } },
  });
  expect(cell.scorers).toMatchObject({ [JUDGED]: judged(1, 0, '1', 1), cut_off: { all: { values: { false: 1 } } } });
  const outcomes = outcomesIn(cell, [...LLM, ...CODE]);
  expect(outcomes).toMatchObject([
    { scorer: JUDGED, good: 1, empty: 1, error: 1, doesNotApply: 3, reasons: { notText: 3 } },
    { scorer: 'response_words', other: 1, empty: 1, error: 1 },
    { scorer: 'cut_off', good: 1 },
  ]);
  for (const { scorer: _, reasons: _reasons, captures, ...counts } of outcomes)
    expect(Object.values(counts).reduce((all, count) => all + count, 0)).toBe(captures);
  const killed = new ChunkRig();
  await killed.killed(killed.request('one', {}, 0, lines));
  const after = await killed.evaluate(killed.request('one', {}, 1, lines));
  expect(outcomesIn(after, [...LLM, ...CODE])).toEqual(outcomes);
});

test('verdicts are counted by the version of the judge that gave them', async () => {
  const rig = new ChunkRig();
  const answer = (more = {}) => told(JSON.stringify({ [JUDGED]: { value: 'yes', rationale: 'because', ...more } }));
  const { judge } = scriptedJudge(() => answer());
  const by = (sourceId: string) => Object.assign(Object.create(judge), { sourceId });
  const small = scriptedJudge(() => answer({ sure: true }), { maxAnswers: 1 }).judge;
  const versions = LLM.map((scorer) => ({ ...scorer, version: '2' }));
  const all = [
    { judge: by('test:/a') },
    { judge: by('test:/a'), scorers: versions },
    { judge: by('test:/b') },
    { judge: cascade(Object.assign(Object.create(small), { sourceId: 'test:/small' }), by('test:/a')) },
  ];
  for (const [n, more] of all.entries())
    await rig.evaluate(rig.request(`run-${n}`, {}, 0, LINES.slice(n, n + 1)), more);
  const { versions: counted = {} } = rig.cell.scorers?.[JUDGED]?.[1] ?? {};
  expect(Object.values(counted).toSorted()).toEqual([1, 1, 2]);
});

test('a line that a retry traces is in quarantine no more, and one that it quarantines again counts once', async () => {
  const rig = new ChunkRig();
  const lines = [chatLine('mended '.repeat(200)), '{"no": "capture"}'];
  const short = { environment: testEnvironment({ MAX_LINE_BYTES: '1024' }) };
  const before = await rig.log(rig.request('one', { evaluate: false }, 0, lines), short);
  expect(before.quarantined).toEqual({ LineTooLong: 1, NotACaptureRecord: 1 });
  const { chunk, ...request } = rig.request('retry', { evaluate: false, continues: ['one'] }, 0, lines);
  const ranges = chunk.ranges.map((range) => ({ ...range, keptIn: 'quarantine/one/00000000.jsonl' }));
  await rig.log({ ...request, chunk: { ...chunk, ranges } });
  expect(rig.cell).toMatchObject({ captures: 1, quarantined: { NotACaptureRecord: 1 } });
});

describe('hostile captures', () => {
  const given = { name: 'language', sourceType: 'CODE', sourceId: 'code', metadata: { 'monitoring.sample': '1' } };
  const counted = (variant: string, value: string | number, n = 0): CountedCapture => ({
    ...{ traceId: `t-${variant}-${value}-${n}`, isWritten: true, replaced: [] },
    facts: { inferenceMs: Date.parse(`${HOUR}:30:00Z`), variant, isError: false },
    chances: chancesOf({ sampleRate: 1 }),
    verdicts: [{ ...given, value } as CountedVerdict],
  });

  test('that make up variants and values add a bounded number of counts', () => {
    const many = Array.from({ length: 200 }, (_, n) => counted(`variant-${n}`, `value-${n}`));
    const same = many.map((_, n) => counted('variant-0', `value-${n}`, 1));
    const variants = countsOf([...many, ...same])[HOUR] ?? {};
    expect(Object.keys(variants)).toHaveLength(21);
    const total = Object.values(variants).reduce((sum, { captures = 0 }) => sum + captures, 0);
    expect(total).toBe(400);
    const { values = {} } = variants['variant-0']?.scorers?.language?.all ?? {};
    expect(Object.keys(values).length).toBeLessThanOrEqual(50);
    expect(Object.values(values).reduce((sum, count) => sum + count, 0)).toBe(201);
  });

  test('with names of object members and with numbers beyond reason leave the others as they are', () => {
    const quality = countsOf([
      counted('__proto__', '__proto__'),
      counted('constructor', 'constructor'),
      counted('constructor', 1e300),
    ]);
    const total: QualityCounts = {};
    addTree(total, JSON.parse(JSON.stringify(quality)));
    addTree(total, JSON.parse(`{"${HOUR}":{"__proto__":{"captures":1,"x":null}}}`));
    expect(Object.keys(total[HOUR] ?? {})).toEqual(['(other)', 'constructor']);
    const valuesOf = (name: string) => ({ scorers: { language: { all: { values: { [name]: 1 } } } } });
    expect(total[HOUR]?.['(other)']).toMatchObject({ captures: 1, ...valuesOf('(other)') });
    expect(({} as QualityCell).captures).toBeUndefined();
    expect(total[HOUR]?.constructor).toMatchObject({ captures: 2, ...valuesOf('constructor') });
  });
});

test('of two attempts that each know a part, the one that knows more counts', () => {
  const total = { a: 1, b: { c: -3 } };
  maxByMagnitude(total, { a: 2, b: { c: -1, d: 4 } });
  expect(JSON.parse(JSON.stringify(total))).toEqual({ a: 2, b: { c: -3, d: 4 } });
});

test('the sample as text', () => {
  expect(scorerSample('0.05', { sampleRate: 0.5 })).toBe('0.05*0.5');
  const ofRule = captureSample(true, { sample: 0.05, rule: 0.4, isByNumber: true });
  expect([scorerSample('0.05', { sampleRate: 0.5 }, true), scorerSample(ofRule, { sampleRate: 0.5 }, true)]).toEqual([
    '*0.5',
    'always/0.4',
  ]);
  expect(['0.05*0.5', '*0.5', 'always', ofRule, 'nonsense'].map(chanceOf)).toEqual([0.025, 0.5, 1, 0.4, 1]);
  const of = (...samples: string[]) =>
    stratumOfTrace(samples.map((sample) => ({ metadata: { 'monitoring.sample': sample } })));
  expect([of('x', '0.05*0.5'), of('*0.5', ofRule), of('7', '*1'), of()]).toEqual([
    '0.05',
    ofRule,
    undefined,
    undefined,
  ]);
  const later = { 'monitoring.sample': '1', 'monitoring.part': '0.05*0.5' };
  expect([stratumOf(later), stratumOfTrace([{ metadata: later }])]).toEqual(['0.05*0.5', '0.05']);
  const pairs = [
    ['0.05', '1'],
    ['1', '0.05'],
    ['0.5', ofRule],
    ['always', ofRule],
  ] as const;
  expect(pairs.map(([first, now]) => laterSample(first, now))).toEqual(['1', '1', ofRule, 'always']);
});

/** Names that captures of an hour made up. */
const names = (n: number) => Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`${n} ${at}`, 1]));

test('a run is counted by variant, continues where an invocation stopped, and has a bounded size whatever captures say', () => {
  const sums = new RunSums();
  for (let n = 0; n < 30; n += 1) sums.add({ '2026-11-20T10': { [`v${n}`]: { captures: 1, errorKinds: names(n) } } });
  const next = new RunSums();
  next.restore(JSON.parse(JSON.stringify(sums)));
  next.add({ '2026-11-20T09': { v0: { captures: 1, errorKinds: names(31) } } });
  const { first, variants } = next;
  expect([first, Object.keys(variants).length]).toEqual(['2026-11-20T09', 21]);
  expect(variants).toMatchObject({ v0: { captures: 2 }, v19: { captures: 1 }, '(other)': { captures: 10 } });
  for (const { captures = 0, errorKinds = {} } of Object.values(variants)) {
    expect(Object.keys(errorKinds)).toHaveLength(50);
    expect(Object.values(errorKinds).reduce((sum, count) => sum + count)).toBe(50 * captures);
  }
});

test('adds cells up to a sum that is bounded, whatever captures say in each hour', () => {
  const cells = Array.from({ length: 48 }, (_, n) => ({ cell: { errorKinds: names(n) } }));
  const { errorKinds = {} } = sumOfCells(cells);
  expect(Object.keys(errorKinds)).toHaveLength(50);
  expect(errorKinds['(other)']).toBe(48 * 50 - 49);
});
