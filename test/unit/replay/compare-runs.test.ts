/** Compares two runs from their files: how requests are paired, few requests, and files that are not a run. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compareRuns } from '../../../src/replay/compare/compare-runs.ts';
import { readRun } from '../../../src/replay/compare/run-data.ts';
import { crossings, parseThreshold } from '../../../src/replay/compare/thresholds.ts';

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
  /** The fields that mark a record as canceled. */
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
      ...(eventId ? { event_id: eventId } : {}),
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

function emptyFolder(): void {
  rmSync(folder, { recursive: true });
  mkdirSync(folder);
}

const compared = async (before: readonly Spec[], after: readonly Spec[]) =>
  compareRuns(await readRun(run('before', before)), await readRun(run('after', after)));

const numbered = (count: number, ms: (i: number) => number): Spec[] =>
  Array.from({ length: count }, (_, i) => ({ line: i + 1, ms: ms(i) }));

test('distinguishes requests with the same name by their file, in any order of completion', async () => {
  const x: Spec = { file: 'a/x.jsonl', ms: 10, text: 'of x' };
  const y: Spec = { file: 'b/x.jsonl', ms: 50, text: 'of y' };
  const found = await compared([x, y, { ...y, ok: false }], [y, { ...y, ok: false }, x]);
  expect(found.before).toMatchObject({ requests: 3, failed: 1 });
  expect(found.errorRate.before).toBeCloseTo(1 / 3);
  expect(found.paired).toMatchObject({ requests: 3, newlyFailing: 0, onlyBefore: 0, onlyAfter: 0 });
  expect(found.metrics.request_latency?.mean.difference).toBe(0);
  expect(found.quality).toMatchObject({ compared: 3, identical: 3 });
});

test('reads replies with Unicode line separators completely', async () => {
  const text = 'one\u2028two\u2029three\u0085four';
  const found = await compared([{ text }], [{ text: 'another' }]);
  expect(found.quality?.compared).toBe(1);
  expect(found.regressions[0]?.before).toBe(text);
});

test('pairs replies that are far apart in their files', async () => {
  const many = Array.from({ length: 500 }, (_, i): Spec => ({ line: i + 1, text: `reply ${i} ${'x'.repeat(300)}` }));
  const found = await compared(many, [...many].reverse());
  expect(found.quality).toMatchObject({ compared: 500, identical: 500 });
});

test('a difference of five requests is not significant, and crosses a threshold anyway', async () => {
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

test('a mean needs twenty values, and a quantile five values beyond it', async () => {
  const few = await compared(
    numbered(19, () => 10),
    numbered(19, (i) => 20 + i),
  );
  expect(few.metrics.request_latency).toMatchObject({ mean: { tooFew: true }, p50: { significant: true } });
  emptyFolder();
  const more = await compared(
    numbered(99, () => 10),
    numbered(99, (i) => 20 + i),
  );
  expect(more.metrics.request_latency).toMatchObject({ p90: { significant: true }, p95: { tooFew: true } });
  expect(more.metrics.request_latency?.p90.tooFew).toBeUndefined();
  expect(crossings([parseThreshold('request_latency:p95:5%')], more)[0]?.got).toContain('p95 needs 100');
});

describe('pairing', () => {
  const ids = Array.from({ length: 20 }, (_, i) => `e${i}`);
  const gates = ['regressed:0', 'newly_failing:0', 'request_latency:mean:1%'].map(parseThreshold);

  test('pairs requests by event id after their captures were copied', async () => {
    const two = ids.map((eventId, i): Spec => ({ eventId, file: i < 10 ? 'a' : 'b', line: (i % 10) + 1 }));
    const one = ids.map((eventId, i): Spec => ({ eventId, file: 'both', line: i + 1 }));
    const found = await compared(two, one.reverse());
    expect(found.paired).toMatchObject({ requests: 20, onlyBefore: 0, onlyAfter: 0 });
    expect(found.quality).toMatchObject({ compared: 20, identical: 20 });
    expect(crossings(gates, found)).toEqual([]);
  });

  test('pairs requests by line if they share an event id in one of the runs', async () => {
    const copies: Spec[] = [1, 2, 3].map((line) => ({ eventId: 'same', line, text: `reply ${line}` }));
    const found = await compared([...copies, { eventId: 'other', line: 4 }], [{ ...copies[1] }, { eventId: 'other' }]);
    expect(found.paired).toMatchObject({ requests: 2, onlyBefore: 2, onlyAfter: 0 });
    expect(found.quality).toMatchObject({ compared: 2, identical: 2 });
  });

  test('crosses every threshold if less than half of the requests are in both runs', async () => {
    const before = ids.map((eventId): Spec => ({ eventId }));
    const found = await compared(
      before,
      before.map((one, i) => (i === 0 ? one : { eventId: `other ${i}` })),
    );
    expect(found.paired.requests).toBe(1);
    const got = expect.stringContaining('only 1 of 20');
    expect(crossings(gates, found)).toMatchObject([{ got }, { got }, { got }]);
    expect(found.notes.join()).toContain('only 1 are in both runs');
    emptyFolder();
    expect(crossings(gates, await compared(before, before.slice(0, 10)))).toEqual([]);
    emptyFolder();
    // Only one of twenty requests has a latency.
    const failing = await compared(
      before,
      before.map((one, i) => ({ ...one, ok: i === 0 })),
    );
    expect(crossings(gates.slice(2), failing)).toMatchObject([{ got }]);
  });
});

test('an increase from 0 crosses every relative threshold', async () => {
  const found = await compared(
    numbered(8, () => 0),
    numbered(8, () => 5),
  );
  expect(crossings([parseThreshold('request_latency:p95:1000%')], found)).toHaveLength(1);
});

test('a run without requests crosses every threshold', async () => {
  const found = await compared([], [{}]);
  const thresholds = ['error_rate:5', 'newly_failing:5', 'regressed:5', 'new_refusals:5', 'request_latency:p50:5%'];
  expect(crossings(thresholds.map(parseThreshold), found).map(({ threshold }) => threshold)).toEqual(thresholds);
});

test('counts missing verdicts as worse for judged_worse', async () => {
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
  expect(gate({ overBudget: 10 })[0]?.got).toBe('unknown: 2 judged worse, and 11 of 100 without a verdict');
  expect(gate({ worse: 6 })[0]?.got).toContain('6.00%');
});

describe('names the place of a damaged file', () => {
  test.each([
    ['profile_export.jsonl', '{"metadata":{}}\n{"broken', /is not JSON|not the record/, 'profile_export.jsonl, line 1'],
    ['profile_export.jsonl', '[]\n', /not the record of a request/, 'profile_export.jsonl, line 1'],
    ['replay.json', '{"broken', /not JSON/, 'replay.json'],
    ['replay.json', '[]', /not a JSON object/, 'replay.json'],
    [
      'replies.jsonl',
      '{"key":"a.jsonl:1","file":"a.jsonl","reply":{"ok":true,"text":""}}\n{"bro\n',
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

test('leaves out a truncated last line and adds a note', async () => {
  const before = run(
    'before',
    numbered(3, () => 10),
  );
  const after = run(
    'after',
    numbered(3, () => 10),
  );
  for (const name of ['profile_export.jsonl', 'replies.jsonl'])
    writeFileSync(join(after, name), readFileSync(join(after, name), 'utf8').slice(0, -20));
  const found = await compareRuns(await readRun(before), await readRun(after));
  expect(found).toMatchObject({ paired: { requests: 2, onlyBefore: 1 }, quality: { compared: 2 } });
  expect(found.notes[0]).toMatch(/truncated.*profile_export.jsonl, line 3/);
  expect(found.notes[1]).toMatch(/truncated.*replies.jsonl, line 3/);
});

test('notes the options that differ', async () => {
  const directories = [run('before', [{}]), run('after', [{}])] as const;
  for (const [i, directory] of directories.entries())
    writeFileSync(join(directory, 'replay.json'), JSON.stringify({ options: { speedup: 1 + 4 * i, repeat: 1 } }));
  const found = await compareRuns(await readRun(directories[0]), await readRun(directories[1]));
  expect(found.notes[0]).toBe('The two runs had different options: speedup 1 and 5.');
});

test('does not count requests canceled on purpose as failed, but those canceled at the end of a run', async () => {
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
  emptyFolder();
  const cut = await compared(good, [...good.slice(0, 20), ...last.map((one) => ({ ...one, ...cutOff }))]);
  expect(cut.after).toMatchObject({ failed: 20, cancelledOnPurpose: 0 });
  expect(cut.errorRate).toMatchObject({ after: 0.5, significant: true });
  expect(crossings(gates, cut).map(({ threshold }) => threshold)).toEqual(['error_rate:0', 'newly_failing:0']);
  emptyFolder();
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
