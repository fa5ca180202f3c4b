/** How PlanCaptures gives captures their chance to be judged, in a table in memory and an S3 double. */
import { inSample } from '../../../src/captures/trace/ids.ts';
import type { RunOptions } from '../../../src/core/contract/input.ts';
import type { CaptureRange, ManifestLine, PlanResult } from '../../../src/core/contract/payloads.ts';
import type { PlanReceipt } from '../../../src/core/contract/receipts.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { DrawChances } from '../../../src/monitoring/plan/draw-chances.ts';
import { planCaptures } from '../../../src/monitoring/plan/planner.ts';
import { MemoryTable, memoryLimits } from '../../doubles/memory-table.ts';
import { S3Wire } from '../../doubles/s3-wire.ts';
import { ChunkRig, JUDGED, LINES } from '../../helpers/chunk-rig.ts';
import { ledgerRows } from '../../helpers/ledger-rows.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const [CAPTURES, WORK] = ['captures', 'work'];
const DAY = '2026-11-20';
const atHour = (hour: number, day = DAY): number => Date.parse(`${day}T00:00:00Z`) + (hour + 0.5) * 3_600_000;

let wire: S3Wire;
let table: MemoryTable;
beforeEach(async () => {
  wire = await S3Wire.start();
  table = new MemoryTable();
});
afterEach(() => wire.stop());

const settings = (more: Record<string, string> = {}) =>
  testEnvironment({
    ...{ WORK_BUCKET: WORK, DATA_CAPTURE_S3_BUCKET: CAPTURES, DATA_CAPTURE_S3_PREFIX: 'e/' },
    ...{ SAGEMAKER_ENDPOINT_NAME: 'e', EVALUATION_SAMPLE_RATE: '', ...more },
  });

/** Returns the chances of the stack’s planners at a time. */
const chances = (nowMs: number, more?: Record<string, string>): DrawChances =>
  new DrawChances(settings(more), memoryLimits(table), () => nowMs);

const fileAt = (name: string, hour: number, lines: number, day = DAY) => ({
  ...{ bucket: CAPTURES, key: `e/A/${day.replaceAll('-', '/')}/${String(hour).padStart(2, '0')}/${name}.jsonl` },
  ...{ objectTimeMs: 0, lines, bytes: lines * 1500 },
});

/** Plans one part of a run. */
const plan = (
  run: string,
  input: unknown,
  nowMs: number,
  more?: Record<string, string>,
  { part = 0, cursor = '', remainingMs = (): number => 900_000 } = {},
) =>
  planCaptures(
    { input, run: { name: run, arn: `arn:${run}`, startTime: new Date().toISOString() }, part, nextChunk: 0, cursor },
    {
      ...{ storage: wire.storage, environment: settings(more), chances: chances(nowMs, more), scorers: 1 },
      ...{ isRunning: async () => false, checkJudgeModel: async () => undefined, remainingMs },
      store: { resolveExperiment: async (name) => ({ id: '7', name, artifactLocation: '' }) },
    },
  );
const receiptOf = (run: string, part = 0) => wire.json<PlanReceipt>(WORK, workKeys.plan(run, part));
const rangesOf = (run: string): CaptureRange[] => {
  const { chunk, manifest } = receiptOf(run) ?? {};
  const chunks = chunk ? [chunk] : manifest ? wire.lines<ManifestLine>(WORK, manifest) : [];
  return chunks.flatMap(({ ranges }) => ranges);
};
const putFile = (name: string, hour: number, lines: number, day = DAY): string => {
  const { key } = fileAt(name, hour, lines, day);
  wire.put(CAPTURES, key, `{"n":"${'x'.repeat(1400)}"}\n`.repeat(lines));
  return key;
};
const fileInput = (key: string) => ({ detail: { bucket: { name: CAPTURES }, object: { key } } });
const drawsOf = (day = DAY): number =>
  Array.from({ length: 24 }, (_, hour) => table.number(`draws#${day}`, `draws${hour}`)).reduce((a, b) => a + b, 0);

describe('the number of a day', () => {
  test('is spread over its hours, and each file keeps its chance', async () => {
    const drawn: number[] = [];
    for (let hour = 0; hour < 24; hour += 1) {
      for (let n = 0; n < 10; n += 1) await chances(atHour(hour)).decide(fileAt(`f${n}`, hour, 50));
      drawn.push(table.number(`draws#${DAY}`, `draws${hour}`));
    }
    expect(drawsOf()).toBeLessThan(1_010);
    expect(Math.min(...drawn)).toBeGreaterThan(20);
    const again = await chances(atHour(23)).decide(fileAt('f3', 5, 50));
    expect(await chances(atHour(9, '2026-12-24')).decide(fileAt('f3', 5, 5_000))).toEqual(again);
    expect(table.number(`draws#${DAY}`, 'lines5')).toBe(500);
  });

  test('holds for 32 planners at once, and is told by what the others have drawn', async () => {
    for (let hour = 0; hour < 20; hour += 1) await chances(atHour(hour)).decide(fileAt('usual', hour, 400));
    const before = drawsOf();
    const burst = Array.from({ length: 32 }, (_, n) => chances(atHour(20)).decide(fileAt(`b${n}`, 20, 700)));
    const made = await Promise.all(burst);
    expect(made.every(({ chance }) => chance > 0)).toBe(true);
    expect(table.number(`draws#${DAY}`, 'draws20')).toBeCloseTo(
      made.reduce((sum, { chance }) => sum + 700 * chance, 0),
      6,
    );
    expect(drawsOf() - before).toBeLessThan(150);
  });

  test('loses no file if its planner is killed before its chance is kept', async () => {
    table.onWrite = (scope) => {
      if (scope.startsWith('file#')) throw new Error('killed');
    };
    const file = fileAt('f', 9, 2_000);
    await expect(chances(atHour(9)).decide(file)).rejects.toThrow('did not answer');
    table.onWrite = undefined;
    const { chance } = await chances(atHour(9)).decide(file);
    expect([chance > 0, drawsOf() < 100]).toEqual([true, true]);
    expect(await chances(atHour(9)).decide(file)).toEqual({ chance });
  });

  test('is what nine tenths of the budget pay for, by the cost of the last week, and then what is left of it', async () => {
    const budget = { EVALUATION_BUDGET_USD: '10', JUDGED_CAPTURES_PER_DAY: '100000' };
    const day = 'draws#2026-11-18';
    const limits = memoryLimits(table);
    const values = { judged: 1_000, usd: 50, ttl: 1 };
    await limits.update({ scope: day, expression: 'SET #ttl = :ttl ADD #judged :judged, #usd :usd', values });
    for (let hour = 0; hour < 24; hour += 1) await chances(atHour(hour), budget).decide(fileAt('f', hour, 1_000));
    // 10 dollars × 0.9 at 0.05 a capture.
    expect(drawsOf()).toBeGreaterThan(150);
    expect(drawsOf()).toBeLessThan(182);
    const spent = {
      scope: `day#${DAY}`,
      expression: 'SET #ttl = :ttl ADD #committed :usd',
      values: { usd: 10e9, ttl: 1 },
    };
    await limits.update(spent);
    expect(await chances(atHour(23), budget).decide(fileAt('g', 23, 1_000))).toEqual({ chance: 0 });
  });

  test('is shared by files of days that are over: a quarter, and an hour after midnight is soon enough', async () => {
    const tomorrow = '2026-11-21';
    await chances(atHour(0, tomorrow) - 1).decide(fileAt('soon', 23, 100));
    expect(table.number(`draws#${DAY}`, 'lines23')).toBe(100);
    for (let n = 0; n < 40; n += 1) await chances(atHour(12, tomorrow)).decide(fileAt(`late${n}`, 3, 500));
    expect(table.number(`draws#${tomorrow}`, 'lateDraws')).toBeGreaterThan(150);
    expect(table.number(`draws#${tomorrow}`, 'lateDraws')).toBeLessThan(251);
    expect(drawsOf(tomorrow)).toBe(0);
  });

  test('leaves a quarter to rules, which have a chance once they choose more', async () => {
    const rules = { EVALUATION_ALWAYS: '[{"name":"long","replyTokensOver":1}]' };
    const first = await chances(atHour(8), rules).decide(fileAt('a', 8, 400));
    const reported = { ruleLines: 400, ruleMatched: 120, ruleDrawn: 90, ttl: 1 };
    const names = Object.keys(reported).slice(0, 3);
    const expression = `SET #ttl = :ttl ADD ${names.map((name) => `#${name} :${name}`).join(', ')}`;
    await memoryLimits(table).update({ scope: `draws#${DAY}`, expression, values: reported });
    const second = await chances(atHour(9), rules).decide(fileAt('b', 9, 400));
    expect(first.ruleChance).toBeGreaterThan(second.ruleChance ?? 1);
    // 160 of 250 are left for 30% of about 400 an hour, for 15 hours.
    expect(second.ruleChance).toBeGreaterThan(0.05);
    expect(second.ruleChance).toBeLessThan(0.15);
    const without = new MemoryTable();
    const plain = new DrawChances(settings({ JUDGED_CAPTURES_PER_DAY: '750' }), memoryLimits(without), () => atHour(8));
    expect((await plain.decide(fileAt('a', 8, 400))).chance).toBe(first.chance);
  });
});

describe('a plan', () => {
  test('puts the chance of a file into its ranges, for its runs, retries and the file that grew', async () => {
    const key = putFile('a', 10, 1_200);
    expect((await plan('one', fileInput(key), atHour(10))).options.chance).toBeUndefined();
    const [{ chance = 0 } = {}] = rangesOf('one');
    expect([chance > 0, chance < 0.1]).toEqual([true, true]);
    expect(new Set(rangesOf('one').map((range) => range.chance))).toEqual(new Set([chance]));
    putFile('a', 10, 1_300);
    await plan('two', fileInput(key), atHour(11));
    await plan('again', { retry: { run: 'one', what: 'failed' } }, atHour(12));
    for (const run of ['two', 'again']) expect(rangesOf(run).map((range) => range.chance)).toContain(chance);
    expect(table.number(`draws#${DAY}`, 'lines10')).toBe(1_200);
    expect(receiptOf('one')?.estimate?.judgedCaptures).toBe(Math.round(1_200 * chance));
  });

  test.each([
    ['a rate of the stack', {}, { EVALUATION_SAMPLE_RATE: '0.2' }],
    ['a rate of the run', { sampleRate: 0.2 }, {}],
  ])('with %s decides nothing', async (_, input, more) => {
    const { options } = await plan('run', { ...fileInput(putFile('a', 10, 100)), ...input }, atHour(10), more);
    expect([options.sampleRate, options.chance, rangesOf('run')[0]?.chance]).toEqual([0.2, undefined, undefined]);
    expect(table.items.size).toBe(0);
  });

  test('of a backfill has a number of its own, and leaves the day’s alone', async () => {
    await chances(atHour(10)).decide({ ...fileAt('a', 10, 2), key: putFile('a', 10, 2) });
    for (let n = 0; n < 8; n += 1) putFile(`b${n}`, 11, 1_000);
    const before = drawsOf();
    const input = { bucket: CAPTURES, prefix: 'e/', verdicts: 400 };
    const { options } = await plan('back', input, atHour(12));
    expect(options).toMatchObject({ verdicts: 400, chance: 0.05 });
    expect(options.sampleRate).toBeUndefined();
    // The chance of a file that was decided before is larger.
    expect(rangesOf('back').find(({ key }) => key.includes('/10/'))?.chance).toBe(1);
    expect(drawsOf()).toBe(before);
    const dry = await plan('dry', { ...input, dryRun: true }, atHour(12));
    expect(dry.options.chance).toBe(0.05);
    const again = await plan('retry', { retry: { run: 'back', what: 'failed' } }, atHour(13));
    expect(again.options).toMatchObject({ chance: 0.05 });
    await expect(plan('bad', { ...input, sampleRate: 0.1 }, atHour(12))).rejects.toThrow(/exclude each other/);
  });

  test('of a backfill judges what its budget, or half of the day’s, pays for', async () => {
    for (let n = 0; n < 3; n += 1) putFile(`b${n}`, 11, 1_000);
    const input = { bucket: CAPTURES, prefix: 'e/' };
    const of = async (run: string, more: object): Promise<PlanResult['options']> =>
      (await plan(run, { ...input, ...more }, atHour(12))).options;
    const [half, whole, small] = [
      await of('half', {}),
      await of('whole', { budgetUsd: 20 }),
      await of('one', { budgetUsd: 1 }),
    ];
    expect(whole.chance).toBeCloseTo(2 * (half.chance ?? 0), 2);
    expect(half.chance).toBeCloseTo(10 * (small.chance ?? 0), 1);
  });

  test('of a backfill in parts decides for all of them in the first', async () => {
    for (let n = 0; n < 40; n += 1) putFile(`b${String(n).padStart(2, '0')}`, 11, 500);
    const input = { bucket: CAPTURES, prefix: 'e/', verdicts: 200 };
    let left = 100_000;
    // A part that has taken so long that its chunks should run.
    const remainingMs = () => {
      left -= 1_000;
      return left;
    };
    const alone = { MAX_FUNCTIONS: '1' };
    const first = await plan('parts', input, atHour(12), alone, { remainingMs });
    expect(first.more).toBe(true);
    expect(first.options.chance).toBeCloseTo(0.01, 3);
    const next = await plan('parts', input, atHour(12), alone, { part: 1, cursor: first.cursor ?? '' });
    expect(next.options.chance).toBe(first.options.chance);
  });
});

test('a chunk draws by the chance of its file, and tells the day what it judged', async () => {
  const rig = new ChunkRig();
  const lines = Array.from({ length: 60 }, (_, n) => LINES[0]?.replace('line 0', `line ${n}`) ?? '');
  const request = rig.request('run', { sampleRate: undefined } as Partial<RunOptions>, 0, lines);
  for (const range of request.chunk.ranges) range.chance = 0.25;
  const cell = await rig.evaluate(request);
  const counts = cell.scorers?.[JUDGED]?.['0.25'];
  const drawn = (await ledgerRows(rig.storage.storage, 'work')).captures.filter(({ traceId = '' }) =>
    inSample(traceId, 0.25),
  ).length;
  expect(drawn).toBeGreaterThan(0);
  expect(counts).toMatchObject({ captures: 60, values: { yes: drawn } });
  const today = await rig.writing.table.get(`draws#${new Date().toISOString().slice(0, 10)}`);
  expect(today.judged).toEqual({ N: String(drawn) });
});
