/** The plan of a gate names sizes from what earlier replays show, else from its assumptions. */

import { Random } from '../../../../src/core/values/random.ts';
import type { ComparedData } from '../../../../src/replay/compare/compared-data.ts';
import { evidenceOf } from '../../../../src/replay/gate/evidence.ts';
import { type JudgeCost, judgeCost, pairOfSize } from '../../../../src/replay/gate/judge-cost.ts';
import { planGate, type ThresholdPlan } from '../../../../src/replay/gate/plan.ts';
import { parseThreshold } from '../../../../src/replay/gate/thresholds.ts';
import type { OneRun, Pilot } from '../../../../src/replay/gate/unchanged.ts';

const plan = (threshold: string, pilot: Pilot = {}): ThresholdPlan =>
  planGate([parseThreshold(threshold)], pilot).thresholds[0] as ThresholdPlan;

/** What two replays show: `known` pairs, and replies if given. */
const twoRuns = (known: number, changes: Partial<ComparedData> = {}): Pilot => ({
  pairs: {
    failures: [
      [0, known],
      [0, known],
    ],
    pairs: { requests: known, known, newlyFailing: 0, newlySucceeding: 0 },
    metrics: {},
    ...changes,
  },
});

const replies = (compared: number, regressed: number) => ({ replies: { compared, regressed, newRefusals: 0 } });

/** Pairs of latencies, `spread` apart in their logarithms. */
function latencies(pairs: number, spread: number, random = new Random(1)): Pick<ComparedData, 'metrics'> {
  const before = new Float64Array(pairs);
  const after = new Float64Array(pairs);
  for (let i = 0; i < pairs; i++) {
    const common = random.normal();
    before[i] = Math.exp(0.5 * common + spread * random.normal());
    after[i] = Math.exp(0.5 * common + spread * random.normal());
  }
  return { metrics: { request_latency: { before, after, paired: true, of: pairs } } };
}

/** The share of unchanged releases of this number of pairs that pass. */
function passing(threshold: string, draw: (pairs: number, random: Random) => ComparedData, pairs: number): number {
  const parsed = parseThreshold(threshold);
  const random = new Random(5);
  const releases = 300;
  let passed = 0;
  for (let i = 0; i < releases; i++) {
    const upper = evidenceOf(parsed, draw(pairs, random)).bounds?.upper(0.05) ?? Number.NaN;
    if (upper <= parsed.limit) passed++;
  }
  return passed / releases;
}

test('a share of pairs is planned from the share that the earlier replays show', () => {
  const found = plan('regressed:5', twoRuns(100_000, replies(100_000, 3000)));
  expect(found).toEqual({
    threshold: 'regressed:5',
    requests: expect.any(Number),
    unchanged: '3% (3000 of 100000 pairs)',
  });
  const share = (pairs: number, random: Random): ComparedData =>
    twoRuns(pairs, replies(pairs, random.binomial(pairs, 0.03))).pairs as ComparedData;
  expect(passing('regressed:5', share, found.requests ?? 0)).toBeGreaterThan(0.78);
  expect(passing('regressed:5', share, found.requests ?? 0)).toBeLessThan(0.95);
  expect(plan('regressed:5', twoRuns(200_000, replies(100_000, 3000))).requests).toBe(2 * (found.requests ?? 0));
});

test('no size suffices where unchanged is at or above the bound', () => {
  for (const regressed of [50, 70]) {
    const found = plan('regressed:5', twoRuns(1000, replies(1000, regressed)));
    expect(found).toMatchObject({ requests: null, note: expect.stringContaining('No size suffices') });
  }
});

test('a zero-tolerance rule needs 3/tolerance pairs, and tells if an unchanged release would fail it', () => {
  expect(plan('new_refusals:0', twoRuns(1000, replies(1000, 0)))).toMatchObject({
    requests: 300,
    unchanged: '0% (0 of 1000 pairs)',
  });
  expect(plan('newly_failing:0').note).toMatch(/in 94\.9% of the replays/);
});

test('pairs that vary more need more requests, and so does a closer bound', () => {
  const [alike, varied] = [0.1, 0.4].map((spread) => twoRuns(500, latencies(500, spread)));
  const size = (threshold: string, pilot: Pilot | undefined): number => plan(threshold, pilot).requests ?? Number.NaN;
  expect(size('request_latency:p50:10%', varied)).toBeGreaterThan(1.5 * size('request_latency:p50:10%', alike));
  const ratio = size('request_latency:p50:2%', varied) / size('request_latency:p50:4%', varied);
  expect(ratio).toBeGreaterThan(2.8);
  expect(ratio).toBeLessThan(5.2);
});

test('a quantile needs as many requests as its values, however wide the bound is', () => {
  expect(plan('request_latency:p99:1000%', twoRuns(600, latencies(600, 0.1))).requests).toBeLessThan(700);
});

test('an unchanged release of the planned size passes in about 80%', () => {
  const size = plan('request_latency:p50:10%', twoRuns(2000, latencies(2000, 0.3))).requests ?? 0;
  const draw = (pairs: number, random: Random): ComparedData =>
    ({ ...twoRuns(pairs).pairs, ...latencies(pairs, 0.3, random) }) as ComparedData;
  expect(passing('request_latency:p50:10%', draw, size)).toBeGreaterThan(0.75);
  expect(passing('request_latency:p50:10%', draw, size)).toBeLessThan(0.97);
});

/** A share of the requests takes 3 s, in each run others, and the rest 0.2 s. */
function twoKinds(share: number, pairs: number, random: Random): ComparedData {
  const draw = (): number => (random.next() < share ? 3000 : 200) * Math.exp(0.1 * random.normal());
  const [before, after] = [Float64Array.from({ length: pairs }, draw), Float64Array.from({ length: pairs }, draw)];
  return {
    ...twoRuns(pairs).pairs,
    metrics: { request_latency: { before, after, paired: true, of: pairs } },
  } as ComparedData;
}

test('a quantile at a gap of the values is planned like any other, and the plan says where it lies', () => {
  const p95 = plan('request_latency:p95:10%', { pairs: twoKinds(0.06, 1000, new Random(3)) });
  expect(p95.note).toContain('lies at a gap');
  expect(p95.requests).toBeGreaterThan(1000);
  expect(p95.requests).toBeLessThan(20_000);
  const p50 = plan('request_latency:p50:10%', { pairs: twoKinds(0.06, 1000, new Random(3)) });
  expect(p50).not.toHaveProperty('note');
});

test.each([500, 1000, 3000, 10_000, 50_000])('without errors in %i pairs, the size is the exact one', (known) => {
  const clean = {
    pairs: { requests: known, known, newlyFailing: 0, newlySucceeding: 0, changes: new Float64Array(known) },
  };
  // All pairs without an error: 0.99^299 is just below 5%, and 0.995^598.
  expect(plan('error_rate:1', twoRuns(known, clean)).requests).toBe(299);
  expect(plan('error_rate:0.5', twoRuns(known, clean)).requests).toBe(598);
  expect(plan('error_rate:1', { run: { metrics: {}, failures: new Float64Array(known) } }).requests).toBe(299);
});

test('errors are planned as many at a time as they are taken to come, and the plan says what rows would need', () => {
  const sized = (together: number) =>
    planGate(['error_rate:1', 'newly_failing:0'].map(parseThreshold), twoRuns(2000), { errorsTogether: together });
  expect(sized(1)).toMatchObject({
    requests: 300,
    thresholds: [
      { note: 'If errors come 1 at a time; in rows of 10, 2990.' },
      { note: 'If errors come 1 at a time; in rows of 10, 3000.' },
    ],
  });
  expect(sized(10)).toMatchObject({ requests: 3000, thresholds: [{ requests: 2990 }, { requests: 3000 }] });
});

test('a pilot whose neighbouring requests are alike needs more, in one run and in two', () => {
  const [first, second] = [new Random(1), new Random(1)].map((random, i) => {
    let state = 0;
    return Array.from({ length: 2 }, () =>
      Float64Array.from({ length: 2000 }, () => {
        state = (i === 0 ? 0 : 0.9) * state + random.normal();
        return 500 * Math.exp(i === 0 ? 0.6 * state : 0.6 * Math.sqrt(1 - 0.81) * state);
      }),
    ) as [Float64Array, Float64Array];
  });
  const size = ([before, after]: [Float64Array, Float64Array], runs: 1 | 2) => {
    const metrics = { request_latency: { before, after, paired: true, of: 2000 } };
    const run: OneRun = { metrics: { request_latency: before }, failures: new Float64Array(2000) };
    return plan('request_latency:p50:10%', runs === 2 ? twoRuns(2000, { metrics }) : { run });
  };
  for (const runs of [1, 2] as const) {
    const [independent, alike] = [size(first as never, runs), size(second as never, runs)];
    expect((alike.requests ?? 0) / (independent.requests ?? 1)).toBeGreaterThan(4);
    expect(alike.unchanged).toContain('neighbouring requests are alike');
    expect(independent.unchanged).not.toContain('alike');
  }
});

test('requests without a value make the number of requests larger', () => {
  const { metrics } = latencies(500, 0.3);
  const all = plan('request_latency:p50:10%', twoRuns(500, { metrics })).requests ?? 0;
  const half = plan('request_latency:p50:10%', twoRuns(1000, { metrics })).requests ?? 0;
  expect(half / all).toBeCloseTo(2, 1);
});

test('the error rate is planned from the pairs that failed in one run only, or from the errors of one run', () => {
  const pairs = { requests: 10_000, known: 10_000, newlyFailing: 50, newlySucceeding: 50 };
  const paired = plan('error_rate:1', twoRuns(10_000, { pairs }));
  expect(paired.unchanged).toBe('100 of 10000 pairs failed in only one of the two runs');
  const often = plan('error_rate:1', twoRuns(10_000, { pairs: { ...pairs, newlyFailing: 500, newlySucceeding: 500 } }));
  // By the normal approximation, for a power of 85%.
  expect((often.requests ?? 0) / (((1.645 + 1.036) ** 2 * (0.05 + 0.05)) / 0.01 ** 2)).toBeCloseTo(1, 1);
  const run: OneRun = {
    metrics: {},
    failures: Float64Array.from({ length: 10_000 }, (_, i) => Number((i * 37) % 10_000 < 100)),
  };
  const single = plan('error_rate:1', { run });
  // Errors of two independent runs fall on twice as many pairs.
  expect((single.requests ?? 0) / (paired.requests ?? 1)).toBeGreaterThan(1.5);
  expect(single.unchanged).toContain('assumed');
});

test('without earlier replays the assumptions are printed', () => {
  expect(plan('request_latency:p95:200')).toMatchObject({ unchanged: expect.stringMatching(/median 2000, .*assumed/) });
  expect(plan('judged_worse:5')).toMatchObject({
    requests: expect.any(Number),
    unchanged: '2% of the pairs (assumed)',
  });
  expect(plan('judged_worse:2').requests).toBeNull();
});

test('the whole gate needs the most that a threshold needs, and the captures are compared with it', () => {
  const gate = ['judged_worse:5', 'new_refusals:0'].map(parseThreshold);
  const found = planGate(gate, {}, { captures: 290 });
  expect(found).toMatchObject({ requests: 300, captures: 290 });
  expect(found.thresholds.map(({ enough }) => enough)).toEqual([true, false]);
  expect(planGate([...gate, parseThreshold('judged_worse:1')], {}).requests).toBeNull();
});

describe('the cost of the judge', () => {
  const cost = (model: string, asked: number | null): JudgeCost =>
    judgeCost({ BEDROCK_MODEL_ID: model, MLFLOW_EVALUATION_MODEL_PARAM: {} }, asked, {
      pairs: [pairOfSize(1000, 300)],
      basis: 'assumed',
    });

  test('is pairs times the price of two calls', () => {
    const { usdPerPair, usd, basis } = cost('anthropic.claude-sonnet-4-6', 250);
    // Two calls with at least the request and both replies, at 3 dollars per million, and their answers at 15.
    expect(usdPerPair).toBeGreaterThan((2 * 1600 * 3) / 1e6);
    expect(usdPerPair).toBeLessThan((2 * (3000 * 3 + 300 * 15)) / 1e6);
    expect(usd).toBeCloseTo(250 * (usdPerPair ?? 0), 10);
    expect(basis).toMatch(/tokens per pair, in both orders \(assumed\); 3 and 15 US dollars per million/);
  });

  test('is unknown for a model without a price, and without a size', () => {
    expect(cost('openai:/own-model', 250)).toMatchObject({ usd: null, usdPerPair: null });
    expect(cost('anthropic.claude-sonnet-4-6', null)).toMatchObject({ usd: null, pairs: null });
  });
});
