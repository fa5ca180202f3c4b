/** Runs at the detectors: in any order, twice, at the same time, and killed between two writes. */
import type { ObservedFailure, QualityObservations } from '../../../src/core/contract/quality.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { logger } from '../../../src/core/process/logging.ts';
import { Random } from '../../../src/core/values/random.ts';
import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { createDetector, type DetectorState, feed, newState, rateOf } from '../../../src/quality/detector.ts';
import {
  type Announcement,
  addFailures,
  Detectors,
  type DetectorsState,
  type ObservedRun,
} from '../../../src/quality/detectors.ts';
import { readChanges, readDetectors } from '../../../src/quality/objective-states.ts';
import { type Objective, readObjectives } from '../../../src/quality/objectives.ts';
import { type Message, messageOf, watchQuality } from '../../../src/quality/watch.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';

const entries = [{ errorReplies: { atMost: 0.05 } }, { errorReplies: { atMost: 0.05 }, variant: 'B' }];
const detectors = new Detectors(readObjectives(entries, { scorers: [], sampleRate: 1 }));
const CONTEXT = {
  ...{ stackPrefix: 'prod', endpointName: 'my-endpoint', page: 's3://work/reports/latest.html' },
  ...{ mlflow: 'https://mlflow.test', experimentId: '7' },
};
const NOW_S = 1_763_856_000;
const RUN_S = 60;

const AN_ERROR = { failing: 1, severity: 'task', causes: 1 } as const;

/** A run over the captures of a minute, one in 2 seconds, of which this share fails. */
function runOf(minute: number, share: number, variant = 'A'): ObservedRun {
  const random = new Random(minute + 1);
  const begin = NOW_S + minute * RUN_S;
  const seconds = Array.from(
    { length: RUN_S / 2 },
    (_, index) => [begin + 2 * index, { cases: 1, failed: random.next() < share ? 1 : 0 }] as const,
  );
  const failures = seconds
    .filter(([, { failed }]) => failed > 0)
    .map(([second]): ObservedFailure => ({ ...AN_ERROR, traceId: `tr-${second}`, second, variant }));
  const observations: QualityObservations = {
    series: { 'error replies': { [variant]: Object.fromEntries(seconds) } },
    failures: { 'error replies': failures.slice(0, 5) },
  };
  return { name: `files-${minute}`, startedMs: (begin + RUN_S) * 1000, observations };
}

const endMs = (minute: number): number => (NOW_S + (minute + 2) * RUN_S) * 1000;

/** Ten minutes of good captures, ten of bad ones, and thirty of good ones: 1,500 captures. */
const shareAt = (minute: number): number => (minute >= 10 && minute < 20 ? 0.3 : 0.01);
const MINUTES = Array.from({ length: 50 }, (_, minute) => minute);

class Rig {
  readonly storage = new MemoryStorage();
  readonly sent: Message[] = [];
  isDeaf = false;
  sendsTo = async (message: Message): Promise<void> => void this.sent.push(message);

  async watch(run: ObservedRun, nowMs: number): Promise<string[]> {
    const publish = async (message: Message): Promise<void> => {
      if (this.isDeaf) throw new Error('no route');
      await this.sendsTo(message);
    };
    return watchQuality(run, { ...this.storage.work, detectors, nowMs, context: CONTEXT, publish });
  }

  get state(): DetectorsState {
    return JSON.parse(this.storage.objects.get(workKeys.detectors)?.toString() ?? '{}');
  }

  get subjects(): string[] {
    return this.sent.map(({ subject }) => subject);
  }
}

/** The message about objectives that a state has missed. */
function messageIn(state: DetectorsState | undefined, change: Partial<Announcement & Objective> = {}, context = {}) {
  const [announced] = state?.outbox ?? [];
  const objective = detectors.objective('error replies');
  if (announced === undefined || objective === undefined) throw new Error('no objective is missed');
  const { failures = announced.failures, variant } = change;
  const named = { ...objective, ...(variant !== undefined && { variant }) };
  return messageOf({ ...announced, failures }, named, { ...CONTEXT, ...context });
}

const RANG = ['ALARM: quality: error replies of my-endpoint', 'OK: quality again: error replies of my-endpoint'];

test('reports a change within minutes, and the recovery', async () => {
  const rig = new Rig();
  const missed: number[] = [];
  for (const minute of MINUTES) {
    const now = await rig.watch(runOf(minute, shareAt(minute)), endMs(minute));
    if (now.includes('error replies')) missed.push(minute);
    expect(now).not.toContain('error replies B');
  }
  expect(rig.subjects).toEqual(RANG);
  expect(rig.sent[0]?.body.default.match(/selectedEvaluationId=tr-/g)).toHaveLength(5);
  expect(missed[0]).toBeLessThanOrEqual(13);
  expect(missed.at(-1)).toBeGreaterThan(19);
  expect(missed.at(-1)).toBeLessThan(40);
  expect(rig.state.outbox).toEqual([]);
  const { work } = rig.storage;
  const day = { fromMs: NOW_S * 1000, toMs: NOW_S * 1000 + 86_400_000 };
  const changes = await readChanges(work, day);
  expect(changes.map(({ objective, isMissed }) => [objective, isMissed])).toEqual([
    ['error replies', true],
    ['error replies', false],
  ]);
  const [since = 0, until = 0] = changes.map((change) => (change.since - NOW_S) / RUN_S);
  expect([Math.round(since), Math.round(until / 10)]).toEqual([10, 2]);
  expect(await readChanges(work, { ...day, fromMs: (changes[1]?.second ?? 0) * 1000 })).toEqual(changes.slice(1));
  expect((await readDetectors(work)).get('error replies')).toEqual({
    isMissed: false,
    since: changes[1]?.since,
  });
  const [alarm, ok] = rig.sent;
  expect(alarm?.body.default).toMatch(
    /^Stack prod\. Since 2025-11-23 00:\d\d UTC: \d+\.\d% of \d+ captures \(95% interval /,
  );
  expect(alarm?.body.default).toMatch(/\nBefore: 9\d\.\d% of \d{3} captures/);
  expect(alarm?.body.default).toContain('Objective: at least 95% of the captures are without error.');
  const links = alarm?.body.default.match(
    /https:\/\/mlflow\.test\/#\/experiments\/7\/traces\?selectedEvaluationId=tr-\d+/g,
  );
  expect(links?.length).toBeGreaterThanOrEqual(3);
  expect(ok?.body.default).toContain('While it was missed: ');
  // The form of Amazon Q: https://docs.aws.amazon.com/chatbot/latest/adminguide/custom-notifs.html
  expect(JSON.parse(alarm?.body.https ?? '')).toMatchObject({
    version: '1.0',
    source: 'custom',
    content: { textType: 'client-markdown', title: RANG[0] },
    metadata: { threadId: 'prod error replies', eventType: 'QualityMissed' },
  });
});

test('runs that end in another order, or are summarized again, come to the same', async () => {
  const straight = new Rig();
  for (const minute of MINUTES) await straight.watch(runOf(minute, shareAt(minute)), endMs(minute));
  const crooked = new Rig();
  const random = new Random(5);
  const order = MINUTES.map((minute) => ({ minute, at: minute + random.below(6) })).toSorted((a, b) => a.at - b.at);
  for (const { minute, at } of order) {
    await crooked.watch(runOf(minute, shareAt(minute)), endMs(at));
    const again = order[random.below(order.length)]?.minute ?? 0;
    if (again < minute) await crooked.watch(runOf(again, shareAt(again)), endMs(at));
  }
  expect(crooked.subjects).toEqual(RANG);
  // The same captures are settled in the same order.
  for (const rig of [straight, crooked]) await rig.watch(runOf(100, 0), endMs(200));
  for (const id of ['error replies', 'error replies B']) {
    expect(crooked.state.objectives[id]?.settled).toEqual(straight.state.objectives[id]?.settled);
  }
});

test('runs that end at the same time all count', async () => {
  const rig = new Rig();
  await Promise.all(MINUTES.slice(0, 8).map((minute) => rig.watch(runOf(minute, 0.01), endMs(9))));
  await rig.watch(runOf(100, 0), endMs(200));
  const [[, cases] = []] = rig.state.objectives['error replies']?.settled.hours ?? [];
  expect(cases).toBe(8 * 30);
});

test.each([1, 2])('a function that is killed before its write %i loses nothing', async (write) => {
  const rig = new Rig();
  for (const minute of MINUTES.slice(0, 10)) await rig.watch(runOf(minute, 0.01), endMs(minute));
  const put = rig.storage.putJsonIf.bind(rig.storage);
  let writes = 0;
  rig.storage.putJsonIf = async (...args) => {
    writes += 1;
    if (writes === write) throw new Error('killed');
    return put(...args);
  };
  const bad = { ...runOf(10, 1), startedMs: endMs(10) };
  await rig.watch(bad, endMs(10)).catch(() => undefined);
  // Lambda's next attempt at the same run.
  await rig.watch(bad, endMs(10) + 5000);
  // It was killed after sending and before it could note that: the message comes twice, and not more often.
  expect(rig.subjects).toEqual(write === 2 ? [RANG[0], RANG[0]] : [RANG[0]]);
  expect(rig.state.outbox).toEqual([]);
  await rig.watch(runOf(100, 0.3), endMs(200));
  const hours = rig.state.objectives['error replies']?.settled.hours ?? [];
  expect(hours.reduce((sum, [, cases]) => sum + cases, 0)).toBe(12 * 30);
});

test('a message that cannot be sent is sent by a later run, or never if it is old', async () => {
  const rig = new Rig();
  rig.isDeaf = true;
  expect(await rig.watch(runOf(0, 1), endMs(0))).toEqual(['error replies']);
  rig.isDeaf = false;
  await rig.watch(runOf(1, 1), endMs(0) + 30_000);
  expect(rig.subjects).toEqual([]);
  await rig.watch(runOf(2, 1), endMs(2));
  expect(rig.subjects).toEqual([RANG[0]]);
  const late = new Rig();
  late.isDeaf = true;
  await late.watch(runOf(0, 1), endMs(0));
  late.isDeaf = false;
  await late.watch(runOf(1500, 1), endMs(1500));
  expect(late.subjects).toEqual([]);
  expect(late.state.outbox).toEqual([]);
});

test('late captures count after those that are settled, and a run of long ago does not', () => {
  const first = detectors.apply(undefined, runOf(60, 0.01), endMs(60));
  const second = detectors.apply(first, runOf(0, 0.01), endMs(61));
  expect(second?.objectives['error replies']?.settled.hours.reduce((sum, [, cases]) => sum + cases, 0)).toBe(30);
  expect(detectors.apply(second, runOf(0, 0.01), endMs(62))).toBeUndefined();
  const old = { ...runOf(0, 1), name: 'old', startedMs: endMs(0) - 49 * 3_600_000 };
  expect(detectors.apply(detectors.apply(second, runOf(62, 0), endMs(62)), old, endMs(63))).toBeUndefined();
});

test('an objective of another figure starts over, and one that is gone is forgotten', () => {
  const before = detectors.apply(undefined, runOf(0, 1), endMs(0));
  expect(before?.objectives['error replies']?.said.isMissed).toBe(true);
  const other = readObjectives([{ errorReplies: { atMost: 0.95 } }], { scorers: [], sampleRate: 1 });
  const after = new Detectors(other).apply(before, runOf(1, 0), endMs(1));
  expect(Object.keys(after?.objectives ?? {})).toEqual(['error replies']);
  expect(after?.objectives['error replies']?.said.isMissed).toBe(false);
});

test.each(['{"settledUntil":1', '[]', 'null', '{"outbox":[]}'])(
  'a state that is %s starts over, with a log entry',
  async (text) => {
    const said = jest.spyOn(logger, 'error').mockImplementation();
    const rig = new Rig();
    rig.storage.put(workKeys.detectors, text);
    expect(await rig.watch(runOf(0, 1), endMs(0))).toEqual(['error replies']);
    expect(said.mock.calls[0]?.[0]).toMatch(/^DetectorsUnreadable/);
    expect(rig.subjects).toEqual([RANG[0]]);
    said.mockRestore();
  },
);

test('where each message times out, a run does not wait for all of them', async () => {
  const errors = jest.spyOn(logger, 'error').mockImplementation();
  const rig = new Rig();
  await rig.watch(runOf(0, 0), endMs(0));
  const [one] = detectors.apply(undefined, runOf(0, 1), endMs(0))?.outbox ?? [];
  const outbox = Array.from({ length: 100 }, (_, n) => ({ ...one, id: `${n}` }));
  rig.storage.put(workKeys.detectors, JSON.stringify({ ...rig.state, outbox }));
  let [clockMs, tries] = [endMs(5), 0];
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => clockMs);
  rig.sendsTo = async () => {
    tries += 1;
    clockMs += 10_000;
    throw new Error('no route');
  };
  await rig.watch(runOf(3, 0), endMs(5));
  expect(tries).toBe(3);
  expect(rig.state.outbox).toHaveLength(100);
  clock.mockRestore();
  errors.mockRestore();
});

test('a subject is shorter than 100 characters', () => {
  const state = detectors.apply(undefined, runOf(0, 1), endMs(0));
  const { subject } = messageIn(state, { variant: 'v'.repeat(50) }, { endpointName: 'e'.repeat(63) });
  expect(subject).toMatch(/^ALARM: quality: error replies \(v{50}\) of e+$/);
  expect(subject.length).toBeLessThan(100);
});

test('a message shows the gravest failure first, and equal replies once with their number, however often a run is summarized', () => {
  const failure = (second: number, more: Partial<ObservedFailure>): ObservedFailure => ({
    ...{ traceId: `tr-${second}`, second: NOW_S + second, variant: 'A', failing: 1, severity: 'task', causes: 1 },
    ...more,
  });
  const run = runOf(0, 1);
  const series = run.observations.series;
  const equal = Array.from({ length: 9 }, (_, second) => failure(second, { exchange: 'same' }));
  const failures = [...equal, failure(20, { causes: 2 }), failure(3, { severity: 'harm', traceId: 'tr-harm' })];
  const kept: QualityObservations['failures'] = {};
  for (const one of failures) addFailures(kept, { 'error replies': [one] });
  const other = { 'error replies': [failure(30, { exchange: 'same' })] };
  // The last run misses the objective, after the first was summarized twice.
  const calm = { 'error replies': { A: { [NOW_S]: { cases: 1 } } } };
  const first = { ...run, observations: { series: calm, failures: kept } };
  const second = { ...run, name: 'b', observations: { series: calm, failures: other } };
  const last = { ...run, name: 'c', observations: { series, failures: {} } };
  let state: DetectorsState | undefined;
  for (const one of [first, second, first, last]) state = detectors.apply(state, one, endMs(0)) ?? state;
  const found = state?.outbox[0]?.failures.map(({ traceId, count = 1 }) => `${traceId} ${count}`);
  expect(found).toEqual(['tr-harm 1', 'tr-20 1', 'tr-30 10']);
  expect(messageIn(state).body.default).toMatch(/look at first:\n- harm, .*\n- 10 × 20/s);
});

test('a guideline may be named as what every object has', () => {
  const scorers = scorersFor({ guidelines: { constructor: 'Be kind.' } });
  const named = new Detectors(readObjectives([{ scorer: 'constructor', atLeast: 0.9 }], { scorers, sampleRate: 1 }));
  const run = runOf(0, 0.01);
  const observations = {
    series: { constructor: { A: run.observations.series['error replies']?.A ?? {} } },
    failures: {},
  };
  const state = named.apply(undefined, run, endMs(0));
  expect(named.apply(state, { ...run, name: 'next', observations }, endMs(1))?.outbox).toEqual([]);
});

test('the judge’s words are still JSON if they were cut within a character, and no link', () => {
  const said = 'see https://evil.test/x or evil.test, 3.5 of 5 \ud83d';
  const failures = [{ ...AN_ERROR, traceId: 'tr-1', second: NOW_S, variant: 'A', said }];
  const state = detectors.apply(undefined, runOf(0, 1), endMs(0));
  const text = JSON.stringify(messageIn(state, { failures }));
  expect(text).not.toContain('ud83d');
  expect(text).not.toMatch(/evil\.test|:\/\/evil/);
  expect(text).toContain('3.5 of 5');
});

const [objective] = readObjectives([{ errorReplies: { atMost: 0.05 }, over: '2h' }], { scorers: [], sampleRate: 1 });
if (objective === undefined) throw new Error('no objective');
const detector = createDetector(objective);

/** Feeds one capture a minute. */
const feedAll = (state: DetectorState, failing: readonly boolean[]) =>
  failing.flatMap((isFailed, minute) =>
    feed(detector, state, [60 * minute, 1, isFailed ? 1 : 0]).map((change) => ({ minute, change })),
  );

const each = (count: number, share: number, seed: number): boolean[] => {
  const random = new Random(seed);
  return Array.from({ length: count }, () => random.next() < share);
};

describe('the detector of an objective', () => {
  test('reports a drop, with the rate before, and the recovery', () => {
    const state = newState();
    const before = each(3000, 0.03, 1);
    const bad = each(400, 0.2, 2);
    const after = each(3000, 0.02, 3);
    const changes = feedAll(state, [...before, ...bad, ...after]);
    expect(changes.map(({ change }) => change.isMissed)).toEqual([true, false]);
    const [rang, ended] = changes;
    expect(rang?.minute).toBeGreaterThan(3000);
    expect(rang?.minute).toBeLessThan(3200);
    // The change is dated within half an hour, and the rates are those of the captures.
    expect(Math.abs((rang?.change.evidence.since ?? 0) / 60 - 3000)).toBeLessThan(30);
    const { evidence, before: window } = rang?.change ??
      ended?.change ?? { evidence: newState().evidence, before: newState().evidence };
    expect(evidence.failed / evidence.cases).toBeGreaterThan(0.12);
    expect(window.cases).toBeGreaterThan(30);
    expect(window.cases).toBeLessThan(180);
    expect(window.failed / window.cases).toBeLessThan(0.1);
    expect(ended?.minute).toBeGreaterThan(3400);
    expect(ended?.minute).toBeLessThan(4000);
    expect(ended?.change.evidence.failed).toBeLessThan(20);
    expect(state.missed).toBeUndefined();
  });

  test('three of four failures are no evidence', () => {
    const state = newState();
    expect(feedAll(state, [true, true, true, false])).toEqual([]);
    expect(state.sum).toBeGreaterThan(0);
  });

  test('captures of the same second are spread, so that their order raises no alarm', () => {
    const state = newState();
    // 5% of 1,000 captures in each of 10 seconds.
    for (let second = 0; second < 10; second += 1) expect(feed(detector, state, [second, 1000, 50])).toEqual([]);
    // Half of them.
    expect(feed(detector, state, [10, 1000, 500]).map(({ isMissed }) => isMissed)).toEqual([true]);
  });

  test('the rate that is shown is that of the window', () => {
    const state = newState();
    feed(detector, state, [0, 10, 1]);
    feed(detector, state, [3600, 20, 1]);
    expect(rateOf(state, objective)).toEqual({ since: 0, cases: 30, failed: 2 });
    feed(detector, state, [7200, 30, 1]);
    expect(rateOf(state, objective)).toEqual({ since: 3600, cases: 50, failed: 2 });
    // A late capture counts now.
    feed(detector, state, [10, 1, 0]);
    expect(rateOf(state, objective)).toEqual({ since: 3600, cases: 51, failed: 2 });
    expect(state.hours).toHaveLength(2);
  });

  test('captures that fail together need as much more', () => {
    const together = createDetector({ ...objective, together: 5 });
    expect(together.missed.limit).toBeGreaterThan(4 * detector.missed.limit);
    expect(feed(detector, newState(), [0, 40, 40])).toHaveLength(1);
    expect(feed(together, newState(), [0, 40, 40])).toEqual([]);
  });
});
