/** The plan of a gate names a range of sizes from what two replays of one model show. */

import { Random } from '../../../../src/core/values/random.ts';
import type { ComparedData } from '../../../../src/replay/compare/compared-data.ts';
import { evidenceOf } from '../../../../src/replay/gate/evidence.ts';
import { judgeCost } from '../../../../src/replay/gate/judge-cost.ts';
import { type PlannedSize, planGate, type ThresholdPlan } from '../../../../src/replay/gate/plan.ts';
import { parseThreshold } from '../../../../src/replay/gate/thresholds.ts';
import { noCases } from '../../../helpers/compared-data.ts';

const plan = (threshold: string, pilot: ComparedData): ThresholdPlan =>
  planGate([parseThreshold(threshold)], pilot).thresholds[0] as ThresholdPlan;

function sizeOf(threshold: string, pilot: ComparedData): PlannedSize {
  const { requests, note } = plan(threshold, pilot);
  if (!requests) throw new Error(note);
  return requests;
}

const twoRuns = (known: number, changes: Partial<ComparedData> = {}): ComparedData => ({
  ...noCases(known),
  ...changes,
});

const replies = (compared: number, regressed: number) => ({ replies: { compared, regressed, newRefusals: 0 } });

const metrics = (before: Float64Array, after: Float64Array): Pick<ComparedData, 'metrics'> => ({
  metrics: { request_latency: { before, after, of: before.length } },
});

/** Pairs of latencies, `spread` apart in their logarithms. Neighbours are alike by `rho`. */
function latencies(pairs: number, spread: number, random = new Random(1), rho = 0): ComparedData {
  const before = new Float64Array(pairs);
  const after = new Float64Array(pairs);
  const state = [0, 0];
  const next = (i: number): number => {
    state[i] = rho * (state[i] ?? 0) + Math.sqrt(1 - rho * rho) * random.normal();
    return state[i] ?? 0;
  };
  for (let i = 0; i < pairs; i++) {
    const common = random.normal();
    before[i] = Math.exp(0.5 * common + spread * next(0));
    after[i] = Math.exp(0.5 * common + spread * next(1));
  }
  return twoRuns(pairs, metrics(before, after));
}

/** The share of unchanged releases of this number of pairs that pass. */
function passing(threshold: string, draw: (pairs: number, random: Random) => ComparedData, pairs: number): number {
  const parsed = parseThreshold(threshold);
  const random = new Random(5);
  const releases = 200;
  let passed = 0;
  for (let i = 0; i < releases; i++) {
    const upper = evidenceOf(parsed, draw(pairs, random)).bounds?.upper(0.05) ?? Number.NaN;
    if (upper <= parsed.limit) passed++;
  }
  return passed / releases;
}

test('a share of pairs is planned from the share that the pilot shows, and how surely it does', () => {
  const found = plan('regressed:5', twoRuns(100_000, replies(100_000, 3000)));
  expect(found.pilot).toBe('3000 of 100000 pairs');
  const share = (pairs: number, random: Random): ComparedData =>
    twoRuns(pairs, replies(pairs, random.binomial(pairs, 0.03)));
  const { likely, from, to } = found.requests as PlannedSize;
  expect(passing('regressed:5', share, likely)).toBeGreaterThan(0.74);
  expect(passing('regressed:5', share, likely)).toBeLessThan(0.9);
  expect(to / from).toBeLessThan(1.5);
  const fewer = sizeOf('regressed:5', twoRuns(2000, replies(2000, 60)));
  expect(fewer.likely / likely).toBeCloseTo(1, 1);
  expect(fewer.to / fewer.from).toBeGreaterThan(2 * (to / from));
  // Half of the requests make no pair.
  expect(sizeOf('regressed:5', twoRuns(200_000, replies(100_000, 3000))).likely).toBe(2 * likely);
});

test('no size suffices where unchanged is at or above the bound', () => {
  for (const regressed of [50, 70]) {
    const found = plan('regressed:5', twoRuns(1000, replies(1000, regressed)));
    expect(found).toMatchObject({ requests: null, note: expect.stringContaining('No size suffices') });
  }
});

test('what the runs do not have is unknown', () => {
  expect(plan('regressed:5', twoRuns(1000)).note).toMatch(/^Unknown: the runs kept no replies/);
  expect(plan('judged_worse:0', twoRuns(1000, replies(1000, 0))).note).toMatch(/^Unknown: no judge was asked/);
  expect(plan('request_latency:p50:10%', twoRuns(1000)).note).toMatch(/^Unknown: at least one run has no/);
});

test('a zero-tolerance rule needs 300 pairs, and tells if an unchanged release would fail it', () => {
  const clean = plan('new_refusals:0', twoRuns(1000, replies(1000, 0)));
  expect(clean).toMatchObject({ requests: { likely: 300, from: 300, to: 300 }, pilot: '0 of 1000 pairs' });
  const failing = twoRuns(1000, { pairs: { requests: 1000, known: 1000, newlyFailing: 20, newlySucceeding: 0 } });
  expect(plan('newly_failing:0', failing).note).toMatch(/in 95% of the replays/);
});

test('pairs that vary more need more requests, and so does a closer bound', () => {
  const [alike, varied] = [0.1, 0.4].map((spread) => latencies(500, spread)) as [ComparedData, ComparedData];
  const likely = (threshold: string, pilot: ComparedData): number => sizeOf(threshold, pilot).likely;
  expect(likely('request_latency:p50:10%', varied)).toBeGreaterThan(1.5 * likely('request_latency:p50:10%', alike));
  const ratio = likely('request_latency:p50:2%', varied) / likely('request_latency:p50:4%', varied);
  expect(ratio).toBeGreaterThan(2.8);
  expect(ratio).toBeLessThan(5.2);
});

test('a quantile needs as many requests as its values, however wide the bound is', () => {
  expect(sizeOf('request_latency:p99:1000%', latencies(3000, 0.1)).likely).toBeLessThan(700);
});

test.each([
  ['independent', 0],
  ['alike', 0.85],
])('the range holds the size at which 80%% pass, where neighbours are %s', (name, rho) => {
  const draw = (pairs: number, random: Random): ComparedData => latencies(pairs, 0.3, random, rho);
  const found = plan('request_latency:p50:10%', draw(2000, new Random(1)));
  const { likely, from, to } = found.requests as PlannedSize;
  expect(found.pilot.includes('neighbouring requests are alike')).toBe(name === 'alike');
  expect(passing('request_latency:p50:10%', draw, from)).toBeLessThan(0.8);
  expect(passing('request_latency:p50:10%', draw, to)).toBeGreaterThan(0.8);
  expect(from).toBeLessThan(likely);
  expect(to).toBeLessThan(10 * from);
});

test('neighbours that are alike need more requests', () => {
  const [independent, alike] = [0, 0.9].map((rho) => latencies(4000, 0.3, new Random(1), rho));
  const likely = (pilot = independent): number => sizeOf('request_latency:p50:5%', pilot as ComparedData).likely;
  expect(likely(alike) / likely()).toBeGreaterThan(3);
});

test.each<[string, string, ComparedData, string]>([
  ['of fewer than 300 values', 'request_latency:p50:10%', latencies(250, 0.3), '10,000'],
  ['in which nothing is known of the tail', 'request_latency:p99:10%', latencies(300, 0.3), '10,000'],
  ['whose neighbours are alike for long', 'request_latency:p50:2%', latencies(3000, 0.3, new Random(1), 0.9), '30,000'],
  ['with too few cases', 'regressed:2', twoRuns(200, replies(200, 2)), '10,000'],
])('a pilot %s is too short', (_, threshold, pilot, needed) => {
  const note = `The pilot is too short: ${needed} requests.`;
  expect(plan(threshold, pilot)).toMatchObject({ requests: null, note });
  expect(planGate(['newly_failing:0', threshold].map(parseThreshold), pilot).requests).toBeNull();
});

test('a quantile near a gap of the values needs a pilot that shows how far the gap is', () => {
  /** 6% of the requests take 3 s, in each run others, and the rest 0.2 s. */
  const draw = (pairs: number): ComparedData => {
    const random = new Random(3);
    const one = (): number => (random.next() < 0.06 ? 3000 : 200) * Math.exp(0.1 * random.normal());
    const [before, after] = [Float64Array.from({ length: pairs }, one), Float64Array.from({ length: pairs }, one)];
    return twoRuns(pairs, metrics(before, after));
  };
  expect(plan('request_latency:p95:10%', draw(1000)).note).toContain('too short');
  const { from, to } = sizeOf('request_latency:p95:10%', draw(30_000));
  expect(from).toBeGreaterThan(1000);
  expect(to).toBeLessThan(20_000);
  expect(plan('request_latency:p50:10%', draw(1000))).not.toHaveProperty('note');
});

test.each([1000, 3000, 10_000, 50_000])('without errors in %i pairs, the size begins at the exact one', (known) => {
  // All pairs without an error: 0.99^299 is just below 5%, and 0.995^598.
  expect(sizeOf('error_rate:1', twoRuns(known))).toMatchObject({ likely: 299, from: 299 });
  expect(sizeOf('newly_failing:1', twoRuns(known)).from).toBe(299);
  if (known > 1000) expect(sizeOf('error_rate:0.5', twoRuns(known)).likely).toBe(598);
});

test('errors are planned as many at a time as they are taken to come', () => {
  const sized = (together: number) =>
    planGate(['error_rate:1', 'newly_failing:0'].map(parseThreshold), twoRuns(30_000), together);
  expect(sized(1).thresholds.map(({ requests }) => requests?.likely)).toEqual([299, 300]);
  expect(sized(10).thresholds.map(({ requests }) => requests?.likely)).toEqual([2990, 3000]);
  expect(sized(10).requests).toMatchObject({ likely: 3000, from: 3000 });
});

test('the error rate is planned from the pairs that failed in one run only', () => {
  const failing = (each: number) =>
    twoRuns(10_000, { pairs: { requests: 10_000, known: 10_000, newlyFailing: 2 * each, newlySucceeding: 0 } });
  const { likely, from, to } = sizeOf('error_rate:1', failing(500));
  // By the normal approximation.
  expect(likely / (((1.645 + 0.842) ** 2 * (0.05 + 0.05)) / 0.01 ** 2)).toBeCloseTo(1, 1);
  // The number of such pairs is known to 6%.
  expect(from / likely).toBeCloseTo(0.94, 1);
  expect(to / likely).toBeCloseTo(1.06, 1);
  expect(sizeOf('error_rate:1', failing(50)).likely).toBeLessThan(likely / 4);
});

describe('the cost of the judge', () => {
  const message = (content: string) => ({ role: 'assistant', content });
  const [before, after] = [message('abc '.repeat(300)), message('abc '.repeat(300))];
  const pair = { messages: [{ role: 'user', content: 'abc '.repeat(1000) }], before, after };
  const cost = (model: string) =>
    judgeCost({ BEDROCK_MODEL_ID: model, MLFLOW_EVALUATION_MODEL_PARAM: {}, JUDGE_PRICES: {} }, 250, [pair], []);

  test('is pairs times the price of two calls', () => {
    const { usdPerPair, usd, basis } = cost('anthropic.claude-sonnet-4-6');
    // Two calls with at least the request and both replies, at 3 dollars per million, and their answers at 15.
    expect(usdPerPair).toBeGreaterThan((2 * 1600 * 3) / 1e6);
    expect(usdPerPair).toBeLessThan((2 * (3000 * 3 + 300 * 15)) / 1e6);
    expect(usd).toBeCloseTo(250 * (usdPerPair ?? 0), 10);
    expect(basis).toMatch(/tokens per pair, in both orders \(as 1 replies\); 3 and 15 US dollars per million/);
  });

  test('is unknown for a model without a price', () => {
    expect(cost('openai:/own-model')).toMatchObject({ usd: null, usdPerPair: null });
  });
});
