/** The plan of a gate names sizes from what earlier replays show, else from its assumptions. */

import { Random } from '../../../../src/core/values/random.ts';
import type { ComparedData } from '../../../../src/replay/compare/compared-data.ts';
import { evidenceOf } from '../../../../src/replay/gate/evidence.ts';
import { type JudgeCost, judgeCost, pairOfSize } from '../../../../src/replay/gate/judge-cost.ts';
import { planGate, planThreshold } from '../../../../src/replay/gate/plan.ts';
import { parseThreshold } from '../../../../src/replay/gate/thresholds.ts';
import type { OneRun, Pilot } from '../../../../src/replay/gate/unchanged.ts';

const plan = (threshold: string, pilot: Pilot = {}) => planThreshold(parseThreshold(threshold), pilot, 0.01);

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
function latencies(pairs: number, spread: number): Pick<ComparedData, 'metrics'> {
  const random = new Random(1);
  const before = new Float64Array(pairs);
  const after = new Float64Array(pairs);
  for (let i = 0; i < pairs; i++) {
    const common = random.normal();
    before[i] = Math.exp(0.5 * common + spread * random.normal());
    after[i] = Math.exp(0.5 * common + spread * random.normal());
  }
  return { metrics: { request_latency: { before, after, paired: true, of: pairs } } };
}

test('a share of pairs is planned from the share that the earlier replays show', () => {
  // 694 is the size for a share of exactly 3% (power.test.ts); 100,000 pairs leave nothing open.
  expect(plan('regressed:5', twoRuns(100_000, replies(100_000, 3000)))).toEqual({
    threshold: 'regressed:5',
    requests: 694,
    unchanged: '3% (3000 of 100000 pairs)',
  });
  expect(plan('regressed:5', twoRuns(200_000, replies(100_000, 3000))).requests).toBe(2 * 694);
});

test('no size suffices where unchanged is at or above the bound', () => {
  for (const regressed of [50, 70]) {
    const found = plan('regressed:5', twoRuns(1000, replies(1000, regressed)));
    expect(found).toMatchObject({ requests: null, note: expect.stringContaining('No size suffices') });
  }
});

test('a small pilot makes the size larger, at most twice as large, and says so then', () => {
  const some = plan('regressed:5', twoRuns(1000, replies(1000, 30)));
  expect(some.requests).toBeGreaterThan(694);
  expect(some).not.toHaveProperty('note');
  const few = plan('regressed:5', twoRuns(100, replies(100, 3)));
  expect(few).toMatchObject({ requests: 2 * 694, note: expect.stringContaining('694') });
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
  const varies = size('request_latency:p50:20%', varied);
  expect(varies).toBeGreaterThan(1.5 * size('request_latency:p50:20%', alike));
  // Of logarithms, 44% are twice as far from nothing as 20% are.
  const ratio = varies / size('request_latency:p50:44%', varied);
  expect(ratio).toBeGreaterThan(3.4);
  expect(ratio).toBeLessThan(4.6);
});

test('a quantile needs as many requests as its values, however wide the bound is', () => {
  expect(plan('request_latency:p95:1000%', twoRuns(600, latencies(600, 0.1))).requests).toBe(100);
});

test('an unchanged release of the planned size passes in about 80%', () => {
  const pilot = twoRuns(400, latencies(400, 0.3));
  const threshold = parseThreshold('request_latency:p50:20%');
  const pairs = planThreshold(threshold, pilot, 0.01).requests ?? 0;
  const random = new Random(5);
  let passed = 0;
  for (let i = 0; i < 400; i++) {
    const [before, after] = [new Float64Array(pairs), new Float64Array(pairs)];
    for (let at = 0; at < pairs; at++) {
      const common = random.normal();
      before[at] = Math.exp(0.5 * common + 0.3 * random.normal());
      after[at] = Math.exp(0.5 * common + 0.3 * random.normal());
    }
    const data = { ...twoRuns(pairs).pairs, metrics: { request_latency: { before, after, paired: true, of: pairs } } };
    if ((evidenceOf(threshold, data as ComparedData).bounds?.upper(0.05) ?? Number.NaN) <= 20) passed++;
  }
  expect(passed / 400).toBeGreaterThan(0.72);
  expect(passed / 400).toBeLessThan(0.95);
});

test('requests without a value make the number of requests larger', () => {
  const { metrics } = latencies(500, 0.3);
  const all = plan('request_latency:p50:20%', twoRuns(500, { metrics })).requests ?? 0;
  const half = plan('request_latency:p50:20%', twoRuns(1000, { metrics })).requests ?? 0;
  expect(half / all).toBeCloseTo(2, 1);
});

test('the error rate is planned from the pairs that failed in one run only, or from the errors of one run', () => {
  const pairs = { requests: 10_000, known: 10_000, newlyFailing: 50, newlySucceeding: 50 };
  const paired = plan('error_rate:1', twoRuns(10_000, { pairs }));
  expect(paired.unchanged).toBe('100 of 10000 pairs failed in only one of the two runs');
  const run: OneRun = { metrics: {}, failures: [100, 10_000] };
  const single = plan('error_rate:1', { run });
  // Errors of two independent runs fall on twice as many pairs.
  expect((single.requests ?? 0) / (paired.requests ?? 1)).toBeGreaterThan(1.5);
  expect(single.unchanged).toContain('assumed');
});

test('without earlier replays the assumptions are printed', () => {
  expect(plan('request_latency:p50:2000')).toMatchObject({
    unchanged: expect.stringMatching(/median 2000, .*assumed/),
  });
  expect(plan('judged_worse:5')).toMatchObject({ requests: 286, unchanged: '2% of the pairs (assumed)' });
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
