/** Compares two runs from their files: how requests are paired, few requests, and files that are not a run. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Random } from '../../../src/core/values/random.ts';
import { compareRuns } from '../../../src/replay/compare/compare-runs.ts';
import { repliesData } from '../../../src/replay/compare/compared-data.ts';
import { metricDifferences, shareDifference } from '../../../src/replay/compare/differences.ts';
import { readRun } from '../../../src/replay/compare/run-data.ts';
import { decideGate } from '../../../src/replay/gate/gate.ts';
import { planGate } from '../../../src/replay/gate/plan.ts';
import { parseThreshold } from '../../../src/replay/gate/thresholds.ts';
import { numbered, type RequestSpec as Spec, writeRun } from '../../helpers/result-folder.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder('compare-runs-');
});

/** Writes a run into a folder of its own. */
const run = (name: string, specs: readonly Spec[]): string =>
  writeRun(join(mkdtempSync(join(folder, 'runs-')), name), specs);

const comparedRuns = async (before: readonly Spec[], after: readonly Spec[]) =>
  compareRuns(await readRun(run('before', before)), await readRun(run('after', after)));

const compared = async (...runs: Parameters<typeof comparedRuns>) => (await comparedRuns(...runs)).comparison;

/** The decision on each of the thresholds. */
const decided = async (thresholds: readonly string[], ...runs: Parameters<typeof comparedRuns>) =>
  decideGate(thresholds.map(parseThreshold), (await comparedRuns(...runs)).data).thresholds;

test('distinguishes requests with the same name by their file, in any order of completion', async () => {
  const x: Spec = { file: 'a/x.jsonl', ms: 10, text: 'of x' };
  const y: Spec = { file: 'b/x.jsonl', ms: 50, text: 'of y' };
  const failed = { ...y, line: 2, ok: false };
  const found = await compared([x, y, failed], [y, failed, x]);
  expect(found.before).toMatchObject({ requests: 3, failed: 1 });
  expect(found.errorRate.before).toBeCloseTo(1 / 3);
  expect(found.paired).toMatchObject({ requests: 3, newlyFailing: 0, onlyBefore: 0, onlyAfter: 0 });
  expect(found.metrics.request_latency?.mean.difference).toBe(0);
  expect(found.metrics.effective_latency?.mean.difference).toBe(0);
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

test('a difference of five requests is not significant, and no threshold is decided on it', async () => {
  const runs = [numbered(5, () => ({ ms: 10 })), numbered(5, (i) => ({ ms: 20 + i }))] as const;
  const few = await compared(...runs);
  expect(few.metrics.request_latency?.p50).toMatchObject({ significant: false, tooFew: true });
  expect(few.notes.join()).toContain('Only 5 requests');
  expect(await decided(['request_latency:p50:50%', 'newly_failing:50'], ...runs)).toMatchObject([
    {
      outcome: 'cannot-tell',
      worse: null,
      seen: 5,
      of: 5,
      moreRequests: 5,
      reason: expect.stringContaining('at least 10'),
    },
    { outcome: 'passed' },
  ]);
});

test('a mean needs a hundred values, and a quantile five values beyond it', async () => {
  const fast = numbered(100, () => ({ ms: 10 }));
  const slow = (count: number) => numbered(count, (i) => ({ ms: 20 + ((i * 37) % count) }));
  const few = await compared(fast.slice(0, 99), slow(99));
  const [tooFew, significant] = [{ tooFew: true }, { significant: true }];
  expect(few.metrics.request_latency).toMatchObject({ mean: tooFew, p50: significant, p90: significant, p95: tooFew });
  expect(few.metrics.request_latency?.p90.tooFew).toBeUndefined();
  const more = await compared(fast, slow(100));
  expect(more.metrics.request_latency).toMatchObject({ mean: { significant: true }, p95: { significant: true } });
  expect(more.metrics.request_latency?.mean.tooFew).toBeUndefined();
});

describe('pairing', () => {
  const ids = Array.from({ length: 20 }, (_, i) => `e${i}`);
  const gates = ['regressed:30', 'newly_failing:30', 'request_latency:mean:1%'];

  test('pairs requests by event id after their captures were copied', async () => {
    const two = ids.map((eventId, i): Spec => ({ eventId, file: i < 10 ? 'a' : 'b', line: (i % 10) + 1 }));
    const one = ids.map((eventId, i): Spec => ({ eventId, file: 'both', line: i + 1 }));
    const found = await compared(two, one.reverse());
    expect(found.paired).toMatchObject({ requests: 20, onlyBefore: 0, onlyAfter: 0 });
    expect(found.quality).toMatchObject({ compared: 20, identical: 20 });
  });

  test('pairs requests by line if they share an event id in one of the runs', async () => {
    const copies: Spec[] = [1, 2, 3].map((line) => ({ eventId: 'same', line, text: `reply ${line}` }));
    const found = await compared([...copies, { eventId: 'other', line: 4 }], [{ ...copies[1] }, { eventId: 'other' }]);
    expect(found.paired).toMatchObject({ requests: 2, onlyBefore: 2, onlyAfter: 0 });
    expect(found.quality).toMatchObject({ compared: 2, identical: 2 });
  });

  test('cannot tell if less than half of the requests are in both runs', async () => {
    const before = ids.map((eventId): Spec => ({ eventId }));
    const mostlyOthers = before.map((one, i) => (i === 0 ? one : { eventId: `other ${i}` }));
    const found = await compared(before, mostlyOthers);
    expect(found.paired.requests).toBe(1);
    expect(found.notes.join()).toContain('only 1 are in both runs');
    const unseen = { outcome: 'cannot-tell', seen: 1, of: 20, reason: expect.stringContaining('only 1 of 20') };
    expect(await decided(gates, before, mostlyOthers)).toMatchObject([unseen, unseen, unseen]);
    const half = { outcome: 'passed', seen: 10, of: 20 };
    expect(await decided(gates.slice(0, 2), before, before.slice(0, 10))).toMatchObject([half, half]);
  });
});

test('knows nothing about a run without requests', async () => {
  const thresholds = ['error_rate:5', 'newly_failing:5', 'regressed:0', 'new_refusals:5', 'request_latency:p50:5%'];
  for (const one of await decided(thresholds, [], [{}])) {
    expect(one).toMatchObject({ outcome: 'cannot-tell', worse: null, seen: 0, moreRequests: null });
    expect(one.reason).toMatch(/no request is in both runs|at least one run has no request_latency/);
  }
});

test('counts the pairs that a judge can compare', async () => {
  const question = 'Where is it?';
  const texts: Spec[] = [
    { question, text: 'Here.' },
    { question, text: 'There.' },
    { question, text: 'Nowhere.' },
    // Without messages, a judge has no question to weigh the replies by.
    { text: 'No chat.' },
    { question, ok: false },
  ];
  const others = texts.map((one, i) => (i === 0 ? one : { ...one, ok: true, text: `${one.text}!!` }));
  const place = (specs: readonly Spec[]) => specs.map((one, i) => ({ ...one, line: i + 1 }));
  const { comparison, data } = await comparedRuns(place(texts), place(others));
  expect(comparison.quality).toMatchObject({ compared: 5, comparable: { equal: 1, differing: 2 } });
  const none = new Float64Array(5);
  expect(data.replies).toMatchObject({ compared: 5, regressed: 0, newRefusals: 0 });
  expect(data.replies?.cases).toMatchObject({ regressed: none, newRefusals: none });
  const judged = { better: 0, same: 1, worse: 0, undecided: 0, failed: 0, overBudget: 0 };
  const quality = comparison.quality as NonNullable<typeof comparison.quality>;
  // Of two pairs, one was never asked about: the judge stopped before it.
  expect(repliesData({ ...quality, judged }).judged).toEqual({ pairs: 3, worse: 0, open: 1 });
});

describe('names the place of a damaged file', () => {
  test.each([
    ['profile_export.jsonl', '{"metadata":{}}\n{"broken', /is not JSON|not the record/, 'profile_export.jsonl, line 1'],
    ['profile_export.jsonl', '[]\n', /not the record of a request/, 'profile_export.jsonl, line 1'],
    ['replay.json', '{"broken', /not a JSON object/, 'replay.json'],
    ['replay.json', '[]', /not a JSON object/, 'replay.json'],
    [
      'replies.jsonl',
      '{"key":"a.jsonl:1","file":"a.jsonl","line":1,"reply":{"ok":true,"text":""}}\n{"bro\n',
      /not JSON/,
      'replies.jsonl, line 2',
    ],
    ['replies.jsonl', '{"key":"a.jsonl:2","file":"a.jsonl","line":2}\n', /not of the request/, 'replies.jsonl, line 1'],
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
  const two = numbered(2, () => ({ ms: 10 }));
  const before = run('before', two);
  const after = run('after', two);
  for (const name of ['profile_export.jsonl', 'replies.jsonl'])
    writeFileSync(join(after, name), readFileSync(join(after, name), 'utf8').slice(0, -20));
  const found = (await compareRuns(await readRun(before), await readRun(after))).comparison;
  expect(found).toMatchObject({ paired: { requests: 1, onlyBefore: 1 }, quality: { compared: 1 } });
  expect(found.notes[0]).toMatch(/truncated.*profile_export.jsonl, line 2/);
  expect(found.notes[1]).toMatch(/truncated.*replies.jsonl, line 2/);
});

test('notes the options that differ', async () => {
  const directories = [run('before', [{}]), run('after', [{}])] as const;
  for (const [i, directory] of directories.entries())
    writeFileSync(join(directory, 'replay.json'), JSON.stringify({ options: { speedup: 1 + 4 * i, repeat: 1 } }));
  const found = (await compareRuns(await readRun(directories[0]), await readRun(directories[1]))).comparison;
  expect(found.notes[0]).toBe('The two runs had different options: speedup 1 and 5.');
});

test('does not count requests canceled on purpose as failed, but those canceled at the end of a run', async () => {
  const good = numbered(40, () => ({ ms: 10 }));
  const onPurpose: Spec = { ok: false, cancelled: { was_cancelled: true, cancelled_on_purpose: true } };
  const cutOff: Spec = { ok: false, cancelled: { was_cancelled: true } };
  const last = good.slice(20);
  const half = [...good.slice(0, 20), ...last.map((one) => ({ ...one, ...onPurpose }))];
  const found = await compared(good, half);
  expect(found.after).toMatchObject({ requests: 40, failed: 0, cancelledOnPurpose: 20 });
  expect(found.errorRate).toMatchObject({ before: 0, after: 0, significant: false });
  expect(found.paired).toMatchObject({ requests: 40, cancelled: 20, newlyFailing: 0 });
  expect(found.quality).toMatchObject({ compared: 20, regressed: 0 });
  const gates = ['error_rate:20', 'newly_failing:20', 'regressed:20'];
  const passed = { outcome: 'passed', worse: 0, seen: 20, of: 40 };
  expect(await decided(gates, good, half)).toMatchObject([passed, passed, passed]);
  const cutShort = [...good.slice(0, 20), ...last.map((one) => ({ ...one, ...cutOff }))];
  const cut = await compared(good, cutShort);
  expect(cut.after).toMatchObject({ failed: 20, cancelledOnPurpose: 0 });
  expect(cut.errorRate).toMatchObject({ after: 0.5, significant: true });
  expect(await decided(gates, good, cutShort)).toMatchObject([
    { outcome: 'failed', worse: 50, seen: 40, of: 40 },
    { outcome: 'failed', worse: 50, seen: 40, of: 40 },
    // The reply to a request that was cut off is unknown.
    { outcome: 'passed', seen: 20, of: 40 },
  ]);
  const unknown = { outcome: 'cannot-tell', seen: 0, reason: expect.stringContaining('canceled on purpose') };
  const nothing = good.map((one) => ({ ...one, ...onPurpose }));
  expect(await decided(gates, good, nothing)).toMatchObject([unknown, unknown, unknown]);
});

describe('failed requests rank behind every success', () => {
  const random = new Random(5);
  const ms = Array.from({ length: 400 }, () => 100 * Math.exp(0.4 * random.normal()));
  const specs = (fails: (i: number) => boolean, more: (i: number) => Spec = () => ({})): Spec[] =>
    numbered(400, (i) => ({ ms: (ms[i] ?? 0) * (fails(i) ? 30 : 1), ok: !fails(i), ...more(i) }));
  const never = () => false;
  const every = (share: number) => (i: number) => (i * 37) % 400 < 400 * share;
  const late = (share: number) => (i: number) => (i * 37 + 200) % 400 < 400 * share;
  const FAILED = /is a failed request/;
  const REACHES = /The interval reaches the failed requests of the second run/;
  const outcome = (one: string, reason: RegExp) => ({ outcome: one, reason: expect.stringMatching(reason) });

  test.each<[string, Spec[], Spec[], object]>([
    ['p95', specs(never), specs(every(0.04)), outcome('cannot-tell', REACHES)],
    ['p95', specs(never), specs(every(0.2)), outcome('failed', /The p95 of the second run is a failed request/)],
    ['p95', specs(never), specs(every(0.01)), outcome('passed', /Worse by at most/)],
    ['p95', specs(every(0.2)), specs(never), { outcome: 'passed', worse: -100 }],
    ['p95', specs(every(0.3)), specs(late(0.3)), outcome('cannot-tell', /The p95 of both runs is a failed request/)],
    ['p50', specs(never), specs(() => true), outcome('failed', FAILED)],
    ['p50', specs(every(0.6)), specs(every(0.6)), outcome('cannot-tell', /The p50 of both runs/)],
    // The time until it failed is longer than all successes.
    ['mean', specs(never), specs(every(0.1)), { outcome: 'failed', worse: expect.closeTo(290, -2) }],
    ['mean', specs(every(0.3)), specs(every(0.3)), outcome('cannot-tell', /Too many requests of the first run failed/)],
    // What requests that failed twice are said to have taken does not hide that the others are slower.
    ['mean', specs(every(0.04)), specs(every(0.04), (i) => ({ ms: 1.15 * (ms[i] ?? 0) })), { outcome: 'cannot-tell' }],
  ])('request_latency:%s (%#)', async (statistic, before, after, expected) => {
    const found = await decided([`request_latency:${statistic}:10%`], before, after);
    expect(found[0]).toMatchObject({ seen: 400, of: 400, ...expected });
    expect(Object.values(found[0] ?? {}).filter((value) => Number.isNaN(value))).toEqual([]);
  });

  test('of a throughput, they rank below, and have no length', async () => {
    const metrics = { output_token_throughput_per_user: 50, output_sequence_length: 9 };
    const gates = ['output_token_throughput_per_user:p50:50%', 'output_sequence_length:p50:10%', 'newly_failing:90'];
    const runs = [specs(never, () => ({ metrics })), specs(every(0.7), () => ({ metrics }))] as const;
    expect(await decided(gates, ...runs)).toMatchObject([
      outcome('failed', FAILED),
      { outcome: 'cannot-tell', seen: 120, of: 400 },
      { outcome: 'passed' },
    ]);
  });

  test('a stream that broke keeps its first token, and a reply that is no stream has none', async () => {
    const gates = ['time_to_first_token:p95:10%', 'inter_token_latency:p95:10%', 'newly_failing:90'];
    const streams = (i: number) => (i % 2 ? { metrics: { time_to_first_token: 50, inter_token_latency: 5 } } : {});
    const broken = (i: number) => ({ ...streams(i), ...(i % 2 ? { firstToken: 51 } : {}) });
    expect(await decided(gates, specs(never, streams), specs(every(0.5), broken))).toMatchObject([
      { outcome: 'passed', worse: expect.closeTo(2, 1), seen: 200, of: 300 },
      outcome('failed', FAILED),
      {},
    ]);
    expect(await decided(gates, specs(never, streams), specs(every(0.5), streams))).toMatchObject([
      { ...outcome('failed', FAILED), seen: 200 },
      outcome('failed', FAILED),
      {},
    ]);
  });

  test('runs without common requests cannot tell', async () => {
    const others = specs(every(0.2)).map((one, i) => ({ ...one, eventId: `other ${i}` }));
    const unknown = { outcome: 'cannot-tell', seen: 0, of: 400 };
    const found = await decided(['request_latency:p95:10%', 'error_rate:5'], specs(never), others);
    expect(found).toMatchObject([unknown, unknown]);
  });

  test('a threshold on failures is added where none is, and only there', async () => {
    const texts = async (...gates: string[]) => {
      const found = await decided(gates, specs(never), specs(every(0.03)));
      return found.map(({ threshold, outcome: how }) => `${threshold} ${how}`);
    };
    expect(await texts('request_latency:p50:10%')).toEqual([
      'request_latency:p50:10% passed',
      'newly_failing:5 passed',
    ]);
    for (const other of ['newly_failing:9', 'error_rate:9']) {
      expect(await texts('request_latency:p50:10%', other)).toHaveLength(2);
    }
    expect(await texts('regressed:9')).toHaveLength(1);
  });
});

describe('free scorers', () => {
  const QUESTION = 'Answer as a JSON object.';
  const GOOD: Omit<Spec, 'line'> = { question: QUESTION, text: '{"answer": "It comes tomorrow."}', finish: 'stop' };
  const good = numbered(400, () => GOOD);
  const worse = (bad: Omit<Spec, 'line'>) => numbered(400, (i) => ({ ...GOOD, ...(i % 10 === 0 ? bad : {}) }));

  test.each<[string, Omit<Spec, 'line'>]>([
    ['cut_off', { finish: 'length' }],
    ['valid_json', { text: 'The answer is: it comes tomorrow.' }],
    ['pii_detected', { text: '{"answer": "Write to jane.doe@example.org"}' }],
    ['repeated_text', { text: JSON.stringify({ answer: 'it comes tomorrow and '.repeat(20) }) }],
    ['refusal', { text: 'I cannot help with that.' }],
  ])('say what newly fails: %s', async (scorer, bad) => {
    const { data } = await comparedRuns(good, worse(bad));
    const { observed, content, outcome } = decideGate([parseThreshold('error_rate:2')], data);
    const found = observed.find((one) => one.scorer === scorer);
    expect(found).toMatchObject({ newlyFailing: 40, seen: 400, of: 400, worse: 10 });
    expect([found?.lower, found?.upper]).toEqual([expect.closeTo(7.6, 0), expect.closeTo(12.8, 0)]);
    expect({ content, outcome }).toEqual({ content: 'not judged', outcome: 'passed' });
    const share = scorer === 'refusal' ? 'new_refusals' : `new_failures:${scorer}`;
    const gate = decideGate([`${share}:5`, `${share}:20`].map(parseThreshold), data);
    expect(gate.thresholds.map((one) => one.outcome)).toEqual(['failed', 'passed']);
    expect(gate.observed.map((one) => one.scorer)).not.toContain(scorer);
    expect(decideGate([parseThreshold(`${share}:0`)], data).outcome).toBe('failed');
    expect(planGate([parseThreshold(`${share}:5`)], data).requests).toBeNull();
    expect(planGate([parseThreshold(`${share}:20`)], data).requests?.from).toBeGreaterThan(20);
  });

  test('what failed before does not newly fail, and what a scorer does not apply to is not known', async () => {
    const cutOff = ['new_failures:cut_off:1'];
    const before = good.map((one) => ({ ...one, finish: 'length' }));
    expect(await decided(cutOff, before, worse({ finish: 'length' }))).toMatchObject([{ outcome: 'passed' }]);
    const unknown = numbered(400, (i) => ({ ...GOOD, finish: i % 10 ? undefined : 'length' }) as Spec);
    expect(await decided(cutOff, good, unknown)).toMatchObject([{ outcome: 'cannot-tell', seen: 40, of: 400 }]);
    const none = { reason: 'Unknown: cut_off applies to no reply.', seen: 0 };
    expect(await decided(cutOff, unknown.slice(1, 9), good)).toMatchObject([none]);
  });

  test('personal data of the request is not that of the reply', async () => {
    const question = 'I am jane.doe@example.org. Answer as a JSON object.';
    const asked = numbered(400, () => ({ ...GOOD, question }));
    const told = numbered(400, () => ({ ...GOOD, question, text: '{"answer": "Dear jane.doe@example.org"}' }));
    const { observed } = decideGate([parseThreshold('error_rate:2')], (await comparedRuns(asked, told)).data);
    expect(observed.find(({ scorer }) => scorer === 'pii_detected')).toMatchObject({ newlyFailing: 400, of: 400 });
  });
});

describe('the order of sending', () => {
  const COUNT = 400;
  const random = new Random(3);
  /** Slow and fast requests alternate in rows of this length; the files have them in the order of completion. */
  const waves = (inARow: number): Spec[] =>
    numbered(COUNT, (i) => ({ sent: i, ms: (Math.floor(i / inARow) % 2 ? 300 : 100) + 100 * random.next() })).sort(
      (a, b) => (a.ms ?? 0) - (b.ms ?? 0),
    );

  test('tells whether neighbouring requests are alike, which widens the bounds', async () => {
    const [alike] = await decided(['request_latency:mean:10%'], waves(20), waves(50));
    const [independent] = await decided(['request_latency:mean:10%'], waves(1), waves(1));
    expect(alike).toMatchObject({
      outcome: 'cannot-tell',
      reason: expect.stringMatching(/^Neighbouring requests are alike: 400 tell as much as \d+ independent ones\./),
    });
    expect(alike?.moreRequests).toBeGreaterThan(COUNT);
    expect(independent?.outcome).toBe('passed');
    expect(independent?.reason).not.toContain('alike');
  });

  const failing = (count: number, fails: (i: number) => boolean): Spec[] =>
    numbered(count, (i) => ({ sent: i, ok: !fails(i) }));
  const never = () => false;

  test.each<[string, number, (i: number) => boolean, object]>([
    ['no error', 1000, never, { outcome: 'passed', reason: expect.stringContaining('if errors come one at a time') }],
    ['one by one', 2000, (i) => i % 400 === 9, { outcome: 'passed', reason: expect.not.stringContaining('alike') }],
    [
      'in a row',
      2000,
      (i) => i >= 700 && i < 710,
      { outcome: 'cannot-tell', reason: expect.stringContaining('alike') },
    ],
  ])('%s', async (_, count, fails, expected) => {
    expect(await decided(['error_rate:1'], failing(count, never), failing(count, fails))).toMatchObject([expected]);
    expect(await decided(['newly_failing:1'], failing(count, never), failing(count, fails))).toMatchObject([
      { outcome: (expected as { outcome: string }).outcome },
    ]);
  });
});

const differences = (before: Float64Array, after: Float64Array) => metricDifferences({ before, after });

describe('differences of two runs', () => {
  test('a constant difference of all pairs is significant', () => {
    const random = new Random(5);
    const before = Float64Array.from({ length: 200 }, () => 50 + 100 * random.next());
    const after = before.map((value) => value + 2);
    const [difference, low, high] = [2, 2, 2].map((value) => expect.closeTo(value));
    expect(differences(before, after)?.mean).toMatchObject({ difference, low, high, significant: true });
  });

  test('quantiles are values of the list', () => {
    const values = Float64Array.from({ length: 100 }, (_, i) => i + 1);
    const found = differences(values, values);
    expect(found).toMatchObject({ p50: { before: 50 }, p90: { before: 90 }, p99: { before: 99 } });
    expect(found?.mean).toMatchObject({ before: 50.5, difference: 0, significant: false });
    expect(differences(new Float64Array(), new Float64Array())).toBeUndefined();
  });

  test('the difference of two shares has an interval around it', () => {
    const found = shareDifference([48, 80], [56, 70]);
    expect(found).toMatchObject({ before: 0.6, after: 0.8, significant: true });
    expect(found.difference).toBeCloseTo(0.2, 6);
    // Newcombe's hybrid interval is 0.0524 to 0.3339 (1998, table II, method 10).
    expect(found.low).toBeCloseTo(0.0524, 2);
    expect(found.high).toBeCloseTo(0.3339, 1);
    expect(shareDifference([0, 100], [0, 100])).toMatchObject({ difference: 0, relative: null, significant: false });
  });
});
