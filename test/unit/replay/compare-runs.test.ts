/** Two runs from their files: which requests are pairs, what can be told of few, and what is no run. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compareRuns } from '../../../lambda/replay/compare/compare-runs.ts';
import { readRun } from '../../../lambda/replay/compare/run-data.ts';
import { crossings, parseThreshold } from '../../../lambda/replay/compare/thresholds.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'compare-runs-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Spec {
  file?: string;
  line?: number;
  eventId?: string;
  ms?: number;
  ok?: boolean;
  /** How it says that it was cancelled. */
  cancelled?: object;
  text?: string;
}

const NS = 1_795_233_124_000_000_000;

/** @returns the directory of a run with these requests, in the order of their completion */
function run(name: string, specs: readonly Spec[]): string {
  const directory = join(folder, name);
  mkdirSync(directory);
  const records = specs.map(({ file = 'a.jsonl', line = 1, eventId, ms = 10, ok = true, cancelled }) =>
    JSON.stringify({
      metadata: {
        ...(eventId ? { event_id: eventId } : {}),
        ...cancelled,
        ...{ s3_key: file, line, pass: 0, scheduled_ns: NS, request_end_ns: NS + ms * 1e6 },
      },
      metrics: ok ? { request_latency: { value: ms, unit: 'ms' } } : {},
      ...(ok ? {} : { error: { code: 500, type: 'x', message: 'y' } }),
    }),
  );
  const replies = specs.map(({ file = 'a.jsonl', line = 1, eventId, ok = true, cancelled, text = 'same' }) =>
    JSON.stringify({
      key: `${eventId ?? file.split('/').at(-1)}:${line}`,
      ...{ file, line, input: '' },
      reply: ok
        ? { ok, text }
        : { ok, text: '', error: { code: 500, message: 'y' }, ...(cancelled ? { cancelled: true } : {}) },
    }),
  );
  writeFileSync(join(directory, 'profile_export.jsonl'), `${records.join('\n')}\n`);
  writeFileSync(join(directory, 'replies.jsonl'), `${replies.join('\n')}\n`);
  return directory;
}

const compared = async (before: readonly Spec[], after: readonly Spec[]) =>
  compareRuns(await readRun(run('before', before)), await readRun(run('after', after)));

const numbered = (count: number, ms: (i: number) => number): Spec[] =>
  Array.from({ length: count }, (_, i) => ({ line: i + 1, ms: ms(i) }));

test('requests of one name are told apart by their file, in whatever order they came to their end', async () => {
  const x: Spec = { file: 'a/x.jsonl', ms: 10, text: 'of x' };
  const y: Spec = { file: 'b/x.jsonl', ms: 50, text: 'of y' };
  const found = await compared([x, y, { ...y, ok: false }], [y, { ...y, ok: false }, x]);
  expect(found.before).toMatchObject({ requests: 3, failed: 1 });
  expect(found.errorRate.before).toBeCloseTo(1 / 3);
  expect(found.paired).toMatchObject({ requests: 3, newlyFailing: 0, onlyBefore: 0, onlyAfter: 0 });
  expect(found.metrics.request_latency?.mean.difference).toBe(0);
  expect(found.quality).toMatchObject({ compared: 3, identical: 3 });
});

test('replies with Unicode’s line separators are read whole', async () => {
  const text = 'one\u2028two\u2029three\u0085four';
  const found = await compared([{ text }], [{ text: 'another' }]);
  expect(found.quality?.compared).toBe(1);
  expect(found.regressions[0]?.before).toBe(text);
});

test('replies are paired however far apart they stand', async () => {
  const many = Array.from({ length: 500 }, (_, i): Spec => ({ line: i + 1, text: `reply ${i} ${'x'.repeat(300)}` }));
  const found = await compared(many, [...many].reverse());
  expect(found.quality).toMatchObject({ compared: 500, identical: 500 });
});

test('a difference of five requests may be chance, but passes no gate', async () => {
  const few = await compared(
    numbered(5, () => 10),
    numbered(5, (i) => 20 + i),
  );
  expect(few.metrics.request_latency?.p50).toMatchObject({ significant: false, tooFew: true });
  expect(few.notes.join()).toContain('Only 5 requests');
  const gate = (text: string) => crossings([parseThreshold(text)], few);
  expect(gate('request_latency:p50:50%')).toEqual([
    { threshold: 'request_latency:p50:50%', got: expect.stringContaining('too few requests') },
  ]);
  expect(gate('request_latency:p50:200%')).toEqual([]);
});

test('a difference of six is told', async () => {
  const enough = await compared(
    numbered(6, () => 10),
    numbered(6, (i) => 20 + i),
  );
  expect(enough.metrics.request_latency?.p50.significant).toBe(true);
  expect(enough.metrics.request_latency?.p50.tooFew).toBeUndefined();
});

test('what was nothing and is something is more than any per cent', async () => {
  const found = await compared(
    numbered(8, () => 0),
    numbered(8, () => 5),
  );
  expect(crossings([parseThreshold('request_latency:p95:1000%')], found)).toHaveLength(1);
});

test('a gate that saw nothing is not open', async () => {
  const found = await compared([], [{}]);
  const thresholds = ['error_rate:5', 'newly_failing:5', 'regressed:5', 'new_refusals:5', 'request_latency:p50:5%'];
  expect(crossings(thresholds.map(parseThreshold), found).map(({ threshold }) => threshold)).toEqual(thresholds);
});

test('verdicts that are missing are not for the better', async () => {
  const comparison = await compared(
    numbered(100, () => 10),
    numbered(100, () => 10),
  );
  const judged = { better: 0, same: 0, worse: 2, undecided: 0, failed: 1, overBudget: 0 };
  const gate = (more: object) =>
    crossings([parseThreshold('judged_worse:5')], {
      ...comparison,
      quality: { ...(comparison.quality as NonNullable<typeof comparison.quality>), judged: { ...judged, ...more } },
    });
  expect(gate({})).toEqual([]);
  expect(gate({ overBudget: 10 })[0]?.got).toBe('cannot be told: 2 judged worse, and 11 of 100 without a verdict');
  expect(gate({ worse: 6 })[0]?.got).toContain('6.00%');
});

describe('what is no run is named with its place', () => {
  test.each([
    ['profile_export.jsonl', '{"metadata":{}}\n{"broken', /is not JSON|no record/, 'profile_export.jsonl, line 1'],
    ['profile_export.jsonl', '[]\n', /no record of a request/, 'profile_export.jsonl, line 1'],
    ['replay.json', '{"broken', /not JSON/, 'replay.json'],
    ['replay.json', '[]', /no JSON object/, 'replay.json'],
    [
      'replies.jsonl',
      '{"key":"a.jsonl:1","file":"a.jsonl","reply":{"ok":true,"text":""}}\n{"bro',
      /not JSON/,
      'replies.jsonl, line 2',
    ],
  ])('%s: %j', async (name, content, message, place) => {
    const before = run('before', [{}]);
    const after = run('after', [{}]);
    writeFileSync(join(after, name), content);
    const comparing = (async () => compareRuns(await readRun(before), await readRun(after)))();
    await expect(comparing).rejects.toMatchObject({ name: 'NotAReplay' });
    await expect(comparing).rejects.toThrow(message);
    await expect(comparing).rejects.toThrow(place);
  });
});

test('what was cancelled on purpose is no failure; what was cut off by the end of a run is', async () => {
  const good = numbered(40, () => 10);
  const onPurpose: Spec = { ok: false, cancelled: { was_cancelled: true, cancelled_on_purpose: true } };
  const cutOff: Spec = { ok: false, cancelled: { was_cancelled: true } };
  const last = good.slice(20);
  const found = await compared(good, [...good.slice(0, 20), ...last.map((one) => ({ ...one, ...onPurpose }))]);
  expect(found.after).toMatchObject({ requests: 40, failed: 0, cancelledOnPurpose: 20 });
  expect(found.errorRate).toMatchObject({ before: 0, after: 0, significant: false });
  expect(found.paired).toMatchObject({ requests: 40, cancelled: 20, newlyFailing: 0 });
  expect(found.quality).toMatchObject({ compared: 20, regressed: 0 });
  const gates = ['error_rate:0', 'newly_failing:0', 'regressed:0'].map(parseThreshold);
  expect(crossings(gates, found)).toEqual([]);
  rmSync(folder, { recursive: true });
  mkdirSync(folder);
  const cut = await compared(good, [...good.slice(0, 20), ...last.map((one) => ({ ...one, ...cutOff }))]);
  expect(cut.after).toMatchObject({ failed: 20, cancelledOnPurpose: 0 });
  expect(cut.errorRate).toMatchObject({ after: 0.5, significant: true });
  expect(crossings(gates, cut).map(({ threshold }) => threshold)).toEqual(['error_rate:0', 'newly_failing:0']);
  rmSync(folder, { recursive: true });
  mkdirSync(folder);
  const nothing = await compared(
    good,
    good.map((one) => ({ ...one, ...onPurpose })),
  );
  expect(crossings(gates, nothing).map(({ threshold }) => threshold)).toEqual([
    'error_rate:0',
    'newly_failing:0',
    'regressed:0',
  ]);
});
