/** The decision of a release gate on plain data: each outcome for each kind of threshold, and what it says about it. */

import { Random } from '../../../../src/core/values/random.ts';
import { type ComparedData, joinedRuns } from '../../../../src/replay/compare/compared-data.ts';
import { decideGate } from '../../../../src/replay/gate/gate.ts';
import { gateText } from '../../../../src/replay/gate/texts.ts';
import { parseThreshold } from '../../../../src/replay/gate/thresholds.ts';
import type { ThresholdResult } from '../../../../src/replay/gate/types.ts';
import { noCases } from '../../../helpers/compared-data.ts';

/** Two runs of `pairs` requests that all succeeded, with equal replies. */
const unchanged = (pairs: number): ComparedData => ({
  ...noCases(pairs),
  replies: { compared: pairs, regressed: 0, newRefusals: 0 },
});

/** Latencies of the same requests, of which the second ones are `slower` times as long, with a little noise. */
function latencies(pairs: number, slower: number): ComparedData {
  const random = new Random(pairs);
  const before = Float64Array.from({ length: pairs }, () => 500 * Math.exp(0.5 * random.normal()));
  const after = before.map((value) => value * slower * Math.exp(0.05 * random.normal()));
  return {
    ...unchanged(pairs),
    metrics: {
      request_latency: { before, after, of: pairs },
      output_token_throughput_per_user: {
        before: before.map((value) => 1e4 / value),
        after: after.map((value) => 1e4 / value),
        of: pairs,
      },
    },
  };
}

const withFailures = (pairs: number, newlyFailing: number, newlySucceeding = 0): ComparedData => ({
  ...unchanged(pairs),
  pairs: { requests: pairs, known: pairs, newlyFailing, newlySucceeding },
});

/** The failed requests of each run, and all. */
const failures = (...both: ComparedData['failures']): Pick<ComparedData, 'failures'> => ({ failures: both });

const withReplies = (pairs: number, replies: Partial<NonNullable<ComparedData['replies']>>): ComparedData => ({
  ...unchanged(pairs),
  replies: { compared: pairs, regressed: 0, newRefusals: 0, ...replies },
});

const judged = (pairs: number, worse: number, open = 0): ComparedData =>
  withReplies(pairs, { judged: { pairs, worse, open } });

const decide = (texts: string | string[], data: ComparedData, errorsTogether?: number) =>
  decideGate([texts].flat().map(parseThreshold), data, errorsTogether);

function first(texts: string, data: ComparedData, errorsTogether?: number): ThresholdResult {
  const [result] = decide(texts, data, errorsTogether).thresholds;
  if (!result) throw new Error('no result');
  return result;
}

const withRefusals = (newRefusals: number) => withReplies(200, { newRefusals });

describe('each kind of threshold passes, fails or cannot tell', () => {
  test.each<[string, ComparedData, ComparedData, ComparedData]>([
    ['request_latency:mean:10%', latencies(300, 1), latencies(300, 1.5), latencies(250, 1.095)],
    ['request_latency:mean:50', latencies(300, 1), latencies(300, 1.5), latencies(250, 1.08)],
    ['request_latency:p50:10%', latencies(1000, 1), latencies(1000, 1.5), latencies(1000, 1.1)],
    ['request_latency:p95:10%', latencies(1000, 1), latencies(1000, 1.5), latencies(1000, 1.1)],
    ['request_latency:p95:100', latencies(1000, 1), latencies(1000, 1.5), latencies(1000, 1.08)],
    ['output_token_throughput_per_user:mean:10%', latencies(300, 1), latencies(300, 1.5), latencies(250, 1 / 0.91)],
    ['error_rate:2', withFailures(1000, 3, 4), withFailures(1000, 50), withFailures(1000, 25, 5)],
    ['newly_failing:2', withFailures(1000, 3), withFailures(1000, 50), withFailures(1000, 20)],
    ['new_refusals:5', withRefusals(2), withRefusals(30), withRefusals(9)],
    ['regressed:5', withReplies(200, { regressed: 2 }), withReplies(200, { regressed: 30 }), withReplies(20, {})],
    ['judged_worse:5', judged(200, 2), judged(200, 30), judged(200, 9)],
  ])('%s', (threshold, passing, failing, between) => {
    const bound = parseThreshold(threshold).limit;
    const passed = first(threshold, passing);
    expect(passed).toMatchObject({ outcome: 'passed', bound });
    expect(passed.upper).toBeLessThanOrEqual(bound);
    expect(passed).not.toHaveProperty('moreRequests');
    const failed = first(threshold, failing);
    expect(failed).toMatchObject({ outcome: 'failed', bound });
    expect(failed.lower).toBeGreaterThan(bound);
    const open = first(threshold, between);
    expect(open.outcome).toBe('cannot-tell');
    expect(open.lower).toBeLessThanOrEqual(bound);
    expect(open.upper).toBeGreaterThan(bound);
    expect(open).toHaveProperty('moreRequests');
  });

  test('the exit code is 1 if one failed, else 3 if one cannot tell, else 0', () => {
    const data = { ...judged(200, 2), pairs: { requests: 200, known: 200, newlyFailing: 9, newlySucceeding: 0 } };
    expect(decide(['judged_worse:5', 'newly_failing:10'], data)).toMatchObject({ outcome: 'passed', exitCode: 0 });
    expect(decide(['judged_worse:5', 'newly_failing:5'], data)).toMatchObject({ outcome: 'cannot-tell', exitCode: 3 });
    const codes = decide(['judged_worse:5', 'newly_failing:5', 'newly_failing:1'], data);
    expect(codes).toMatchObject({ outcome: 'failed', exitCode: 1 });
  });
});

test('a smaller replay is never greener: without a case, a share passes only once there are enough pairs', () => {
  const outcomes = [20, 50, 58, 59, 100].map((pairs) => first('judged_worse:5', judged(pairs, 0)).outcome);
  expect(outcomes).toEqual(['cannot-tell', 'cannot-tell', 'cannot-tell', 'passed', 'passed']);
});

test('few values give no bound, and the result says about how many more would decide', () => {
  const few = first('request_latency:p95:10%', latencies(40, 1));
  expect(few).toMatchObject({ outcome: 'cannot-tell', worse: null, seen: 40, of: 40 });
  expect(few.reason).toBe('Unknown: p95 needs at least 100 values.');
  // As many as a larger sample of the same kind needs, which has bounds.
  const total = 40 + (few.moreRequests ?? 0);
  const larger = first('request_latency:p95:10%', latencies(100, 1));
  expect(total).toBeGreaterThanOrEqual(100);
  expect(total).toBeLessThan(4 * (100 + (larger.moreRequests ?? 0)));
  // One that is clearly worse needs only enough values.
  expect(first('request_latency:p95:10%', latencies(40, 5)).moreRequests).toBeLessThan(100);
});

test('without common requests nothing is known', () => {
  const data = { ...unchanged(400), pairs: { requests: 0, known: 0, newlyFailing: 0, newlySucceeding: 0 } };
  for (const threshold of ['error_rate:5', 'newly_failing:5'])
    expect(first(threshold, data)).toMatchObject({ outcome: 'cannot-tell', seen: 0, of: 400, moreRequests: null });
});

describe('several thresholds (Holm)', () => {
  // 11 of 100 exceed 5% by itself (p = 0.012), 10 do not with the correction for three (p = 0.028).
  const verdicts = { pairs: 100, worse: 0, open: 0 };
  const data = withReplies(100, { regressed: 10, newRefusals: 11, judged: verdicts });

  test('a threshold fails by itself, but not among others', () => {
    expect(first('regressed:5', data).outcome).toBe('failed');
    const { outcome, thresholds } = decide(['regressed:5', 'judged_worse:5', 'judged_worse:6'], data);
    expect(outcome).toBe('cannot-tell');
    expect(thresholds[0]).toMatchObject({
      outcome: 'cannot-tell',
      reason: expect.stringContaining('not with the correction for several thresholds'),
    });
    expect(thresholds[0]?.lower).toBeGreaterThan(5);
    expect(thresholds[1]).toMatchObject({ outcome: 'passed' });
  });

  test('each one that failed makes it easier for the next', () => {
    const outcomes = (texts: string[]) => decide(texts, data).thresholds.map(({ outcome }) => outcome);
    expect(outcomes(['regressed:5', 'judged_worse:5'])).toEqual(['cannot-tell', 'passed']);
    expect(outcomes(['regressed:5', 'new_refusals:5'])).toEqual(['failed', 'failed']);
  });

  test('all thresholds pass at 5% each', () => {
    const texts = Array.from({ length: 20 }, () => 'judged_worse:5');
    expect(decide(texts, judged(59, 0)).outcome).toBe('passed');
  });
});

describe('zero tolerance', () => {
  test('one case fails it, whatever else is known', () => {
    expect(first('newly_failing:0', withFailures(10_000, 1))).toMatchObject({ outcome: 'failed', seen: 10_000 });
    const few = { ...withFailures(3, 1), ...failures([0, 100], [1, 100]) };
    expect(first('newly_failing:0', few).outcome).toBe('failed');
    expect(first('judged_worse:0', judged(100, 1, 20)).outcome).toBe('failed');
  });

  test('none passes it once the share that is excluded is at most the tolerance', () => {
    const at = (pairs: number) => first('newly_failing:0', withFailures(pairs, 0));
    expect(at(299)).toMatchObject({ outcome: 'cannot-tell', moreRequests: 1 });
    expect(at(300)).toMatchObject({ outcome: 'passed' });
    expect(at(20)).toMatchObject({
      moreRequests: 280,
      reason:
        'None of 20 pairs: only a share above 15.0% is excluded, and 1% must be. It assumes that requests are independent.',
    });
  });

  test.each([300, 999, 1000, 2980])('takes errors to come one at a time at every size: %i pairs', (pairs) => {
    const reason = /if errors come one at a time; in rows of 10, 3,000 pairs would be needed\.$/;
    expect(first('newly_failing:0', withFailures(pairs, 0))).toMatchObject({
      outcome: 'passed',
      reason: expect.stringMatching(reason),
    });
    // 0.99^299 is just below 5%.
    for (const threshold of ['newly_failing:1', 'error_rate:1'])
      expect(first(threshold, withFailures(pairs, 0))).toMatchObject({ reason: expect.stringMatching(reason) });
  });

  test('or as many as it is told, at every size', () => {
    const at = (pairs: number, together: number) => first('newly_failing:0', withFailures(pairs, 0), together);
    for (const [pairs, more] of [
      [300, 2700],
      [1000, 2000],
    ] as const) {
      expect(at(pairs, 10)).toMatchObject({ outcome: 'cannot-tell', moreRequests: more });
      expect(at(pairs, 10).reason).toContain('Errors are taken to come 10 at a time');
    }
    expect(at(3000, 10)).toMatchObject({ outcome: 'passed', reason: expect.not.stringContaining('in rows of') });
    expect(at(3000, 1).reason).toBe('None of 3000 pairs: a share above 0.10% is excluded within these runs.');
    expect(at(600, 2).reason).toMatch(/if errors come 2 at a time; in rows of 10, 3,000 pairs would be needed/);
    expect(first('error_rate:1', withFailures(2000, 0), 10).outcome).toBe('cannot-tell');
  });

  test('is no test that others are corrected for', () => {
    const data = withReplies(100, { regressed: 10 });
    expect(decide(['newly_failing:0', 'regressed:5'], data).thresholds[1]?.outcome).toBe('failed');
  });

  test('does not pass with pairs that have no verdict', () => {
    expect(first('judged_worse:0', judged(1000, 0, 1))).toMatchObject({ outcome: 'cannot-tell', open: 1 });
    expect(first('regressed:0', judged(1000, 0, 1))).toMatchObject({ outcome: 'cannot-tell', open: 1 });
  });
});

describe('pairs without a verdict', () => {
  test('widen the interval and are counted', () => {
    expect(first('judged_worse:5', judged(200, 2, 2))).toMatchObject({ outcome: 'passed', open: 2 });
    const open = first('judged_worse:5', judged(200, 2, 20));
    expect(open).toMatchObject({ outcome: 'cannot-tell', open: 20, moreRequests: null });
    expect(open.reason).toBe('It depends on 20 pairs without a verdict. It assumes that requests are independent.');
    expect(open.lower).toBeCloseTo(first('judged_worse:5', judged(200, 2)).lower ?? 0, 9);
    expect(first('judged_worse:5', judged(200, 10, 1)).reason).toContain('It depends on 1 pairs');
    expect(gateText(decide('judged_worse:5', judged(200, 2, 20)))[0]).toContain('200 of 200, 20 without a verdict');
  });

  test('do not keep it from failing', () => {
    expect(first('judged_worse:5', judged(200, 30, 100))).toMatchObject({ outcome: 'failed', open: 100 });
  });

  test('can have regressed', () => {
    const data = withReplies(200, { regressed: 2, judged: { pairs: 150, worse: 2, open: 40 } });
    expect(first('regressed:5', data)).toMatchObject({ outcome: 'cannot-tell', open: 40 });
    expect(first('new_refusals:5', data)).not.toHaveProperty('open');
  });

  test('without a judge nothing is known', () => {
    expect(first('judged_worse:5', unchanged(200)).reason).toBe('Unknown: no judge was asked; compare with --judge.');
    const { replies: _, ...noReplies } = unchanged(200);
    expect(first('regressed:5', noReplies).reason).toContain('replay with --compare');
  });
});

describe('several runs of each model', () => {
  const slower = (...factors: number[]): ComparedData => joinedRuns(factors.map((factor) => latencies(400, factor)));
  const p50 = (data: ComparedData) => first('request_latency:p50:10%', data);

  test('the runs are the unit, so that runs that differ do not pass, whatever each of them shows', () => {
    expect(p50(slower(1.01))).toMatchObject({
      outcome: 'passed',
      reason: expect.stringMatching(/within these runs\.$/),
    });
    expect(p50(slower(1.01, 1.0, 1.02))).toMatchObject({ outcome: 'passed', seen: 1200, of: 1200 });
    expect(p50(slower(1.01, 1.0, 1.02)).reason).not.toContain('within these runs');
    const apart = p50(slower(0.9, 1.1));
    expect(apart).toMatchObject({ outcome: 'cannot-tell', moreRequests: null });
    expect(apart.reason).toMatch(/^Within these runs it holds, but runs of one model differ/);
    expect(p50(slower(1.6, 1.5, 1.55)).outcome).toBe('failed');
    expect(p50(slower(1.1, 2.5)).outcome).toBe('cannot-tell');
    expect(decide('request_latency:p50:10%', slower(1, 1)).runs).toBe(2);
  });

  test('the two-sample interval of Student has as many degrees of freedom as runs but two', () => {
    // Runs of equal values: the interval within them has no width.
    const level = (ms: number): Float64Array => new Float64Array(100).fill(ms);
    const data = joinedRuns(
      [
        [100, 104],
        [110, 112],
      ].map(([from = 0, to = 0]) => ({
        ...unchanged(100),
        metrics: { request_latency: { before: level(from), after: level(to), of: 100 } },
      })),
    );
    const found = first('request_latency:p50:20', data);
    // Means 105 and 108; pooled variance (50 + 32) / 2, so that the error is 6.4031 and t is 2.91999.
    expect(found.upper).toBeCloseTo(3 + 2.919986 * 6.403124, 4);
    expect(found.outcome).toBe('cannot-tell');
  });

  test('of shares, an outage of one run is not the share of all', () => {
    const runs = [0, 16].map((failing) => withFailures(400, failing));
    expect(first('newly_failing:5', withFailures(800, 16)).outcome).toBe('passed');
    for (const threshold of ['newly_failing:5', 'error_rate:5']) {
      const apart = runs.map((run, i) => ({ ...run, ...failures([0, 400], [16 * i, 400]) }));
      expect(first(threshold, joinedRuns(apart))).toMatchObject({ outcome: 'cannot-tell', worse: 2, seen: 800 });
    }
    expect(first('newly_failing:5', joinedRuns([withFailures(400, 0), withFailures(400, 0)])).outcome).toBe('passed');
    expect(first('regressed:5', joinedRuns([withReplies(200, {}), withReplies(200, { regressed: 30 })])).seen).toBe(
      400,
    );
  });
});

describe('harm', () => {
  const harmed = (pairs: number, worse: number, open = 0) =>
    withReplies(pairs, { judged: { pairs, worse: 0, open: 0 }, harm: { pairs, worse, open } });

  test.each([
    [598, 0, 0, 'passed', true, 'judged'],
    // Too few for anything but harm that is plain, so that the gate is what it would be without it.
    [597, 0, 0, 'cannot-tell', false, 'judged'],
    [264, 1, 0, 'cannot-tell', false, 'judged'],
    [264, 50, 0, 'failed', true, 'judged'],
    [1000, 4, 0, 'cannot-tell', true, 'judged'],
    [1000, 0, 500, 'cannot-tell', false, 'judged in part'],
  ])('of %i pairs %i newly harmful, %i open: %s', (pairs, worse, open, outcome, counts, content) => {
    const gate = decide('judged_worse:5', harmed(pairs, worse, open));
    const [, harm] = gate.thresholds;
    expect(harm).toMatchObject({ threshold: 'new_harm:0.5', outcome });
    expect(harm?.reason).toMatch(
      counts ? /^Added with the judge\. (?!Too few)/ : /^Added with the judge\. Too few pairs/,
    );
    expect(harm?.counts).toBe(counts ? undefined : false);
    expect(gate).toMatchObject({ outcome: counts ? outcome : 'passed', content });
    expect(gateText(gate).at(-1)).toBe(`content: ${content}`);
  });

  test('its own threshold counts with few pairs too', () => {
    const gate = decide('new_harm:0.5', harmed(264, 0));
    expect(gate.thresholds).toHaveLength(1);
    expect(gate.outcome).toBe('cannot-tell');
    expect(decide('new_harm:0.5', unchanged(900)).thresholds[0]?.reason).toContain('no judge was asked');
    expect(gateText(decide('new_harm:0.5', unchanged(900))).at(-1)).toMatch(/^content: not judged/);
  });
});

describe('coverage', () => {
  test('with less than half of the requests it cannot tell, with half it can', () => {
    const data = (seen: number) => ({ ...judged(seen, 0), ...failures([0, 200], [0, 100]) });
    expect(first('judged_worse:5', data(99))).toMatchObject({
      outcome: 'cannot-tell',
      reason: 'It stands on only 99 of 200 requests; at least half are needed.',
      seen: 99,
      of: 200,
    });
    expect(first('judged_worse:5', data(100)).outcome).toBe('passed');
    const many = { ...data(400), ...failures([0, 900], [0, 900]) };
    expect(first('newly_failing:0', many).outcome).toBe('cannot-tell');
  });

  test('nor does it fail', () => {
    const data = { ...judged(99, 90), ...failures([0, 200], [0, 100]) };
    expect(first('judged_worse:5', data).outcome).toBe('cannot-tell');
  });
});

describe('how many more requests would decide', () => {
  const share = (hits: number, seen: number) => first('judged_worse:5', judged(seen, hits)).moreRequests ?? null;

  test('none in 20: the exact number without a case', () => {
    expect(share(0, 20)).toBe(59 - 20);
  });

  test('a new replay with that many more decides four of five gates, at the same share', () => {
    const random = new Random(7);
    for (const [hits, seen, outcome] of [
      [2, 100, 'passed'],
      [9, 100, 'failed'],
    ] as const) {
      const more = share(hits, seen) ?? 0;
      let decided = 0;
      for (let i = 0; i < 400; i++) {
        const found = random.binomial(seen + more, hits / seen);
        if (first('judged_worse:5', judged(seen + more, found)).outcome === outcome) decided++;
      }
      expect(decided / 400).toBeGreaterThan(0.75);
      expect(decided / 400).toBeLessThan(0.95);
    }
  });

  test('no number does if the estimate is at the bound', () => {
    expect(share(5, 100)).toBeNull();
    expect(first('judged_worse:5', judged(100, 5)).reason).toContain('the estimate is too close to it');
    expect(gateText(decide('judged_worse:5', judged(100, 5)))[0]).toContain(
      'More requests would probably not decide it.',
    );
  });

  test('a difference follows the square root of the number', () => {
    const { worse, upper, moreRequests } = first('request_latency:p95:10%', latencies(200, 1.06));
    const half = (upper ?? 0) - (worse ?? 0);
    const left = Math.sqrt(200 / (200 + (moreRequests ?? 0)));
    // Were the estimate certain, this many would just suffice. It is not, so that more are needed.
    expect(half * left).toBeLessThan(10 - (worse ?? 0));
    expect(moreRequests).toBeGreaterThan(0);
    expect(moreRequests).toBeLessThan(100_000);
  });

  test('counts requests, of which only some make a pair', () => {
    const data = { ...judged(20, 0), ...failures([0, 40], [0, 40]) };
    expect(first('judged_worse:5', data).moreRequests).toBe(2 * (59 - 20));
  });
});

test('prints a line for each threshold', () => {
  const lines = gateText(decide(['judged_worse:5', 'newly_failing:0'], judged(100, 0)));
  expect(lines).toEqual([
    'PASSED      judged_worse:5: worse by 0.00% (0.00% … +2.95%), allowed 5%, requests 100 of 100. Worse by at most 2.95% within these runs. It assumes that requests are independent.',
    'CANNOT TELL newly_failing:0: worse by 0.00% (0.00% … +2.95%), allowed 0%, requests 100 of 100. None of 100 pairs: only a share above 3.00% is excluded, and 1% must be. It assumes that requests are independent. About 200 more requests would probably decide it.',
    'newly failing refusal: 0 of 100 (0.00% … 2.95%), no threshold',
    'Gate: CANNOT TELL',
    'content: judged',
  ]);
});
