/** A gate that is decided while its replay is running: its looks, the pairs that they see, and when it ends. */
import type { ComparedData } from '../../../../src/replay/compare/compared-data.ts';
import type { EarlierReplies } from '../../../../src/replay/compare/earlier-replies.ts';
import type { StoredReply } from '../../../../src/replay/compare/replies-file.ts';
import { RequestTable } from '../../../../src/replay/compare/request-table.ts';
import { METRIC_TAGS, type RunData } from '../../../../src/replay/compare/run-data.ts';
import { decideGate } from '../../../../src/replay/gate/gate.ts';
import { LivePairs } from '../../../../src/replay/gate/live-pairs.ts';
import { Looks } from '../../../../src/replay/gate/looks.ts';
import { SequentialGate } from '../../../../src/replay/gate/sequential-gate.ts';
import { parseThreshold } from '../../../../src/replay/gate/thresholds.ts';
import { type LookedAt, UntilDecided } from '../../../../src/replay/gate/until-decided.ts';
import type { Measured } from '../../../../src/replay/measure/measure.ts';
import type { PreparedRequest } from '../../../../src/replay/request/prepared.ts';
import { PermanentError } from '../../../../src/shared/errors.ts';
import { binomialCdf } from '../../../../src/shared/statistics/distributions.ts';
import { goodAnswer, scriptedJudge, told } from '../../../doubles/scripted-judge.ts';

const sizesOf = (planned: number, expected: number): number[] => {
  const looks = new Looks(planned, expected);
  const sizes: number[] = [];
  for (;;) {
    const { size, isEnd } = looks.next;
    sizes.push(size);
    if (isEnd) return sizes;
    looks.level(size, false);
  }
};

describe('looks', () => {
  test('come at every tenth of the plan, then at half as much more each time, and at the end of the captures', () => {
    const tenths = [30, 60, 90, 120, 150, 180, 210, 240, 270, 300];
    expect(sizesOf(300, 300)).toEqual(tenths);
    expect(sizesOf(300, 2000)).toEqual([...tenths, 450, 675, 1013, 1519, 2000]);
    expect(sizesOf(5000, 300)).toEqual(tenths);
    expect(sizesOf(25, 1000)).toEqual([10, 20, 25, 38, 57, 85, 127, 190, 285, 428, 641, 1000]);
  });

  test('leave a look that sees nearly all captures to the one at their end', () => {
    expect(sizesOf(300, 310).slice(-2)).toEqual([270, 310]);
  });

  test('use up what is left at the end, however many pairs there are then', () => {
    const single = new Looks(100, 1000);
    expect(single.level(8, true)).toBeCloseTo(0.05, 8);
    const two = [new Looks(100, 1000), new Looks(100, 1000)] as const;
    for (const looks of two) looks.level(50, false);
    expect(two[0].level(60, true)).toBeGreaterThan(2 * two[1].level(60, false));
  });
});

/** So many pairs, of which some newly fail. */
const failing = (pairs: number, newlyFailing: number): ComparedData => ({
  failures: [
    [0, pairs],
    [newlyFailing, pairs],
  ],
  pairs: { requests: pairs, known: pairs, newlyFailing, newlySucceeding: 0 },
  metrics: {},
});

test('a release at the bound passes in at most 5% over all looks together, and fails in at most 5%', () => {
  const thresholds = [parseThreshold('newly_failing:5')];
  const looks = new Looks(200, 800);
  const ended = { passed: 0, failed: 0, 'cannot-tell': 0 };
  /** Probability of each number of hits with which the replay goes on. */
  let going = new Map([[0, 1]]);
  let pairs = 0;
  for (let isEnd = false; !isEnd; ) {
    const next = looks.next;
    isEnd = next.isEnd;
    const level = looks.level(next.size, isEnd);
    const reached = new Map<number, number>();
    const added = Array.from({ length: next.size - pairs + 1 }, (_, hits) => {
      const below = hits === 0 ? 0 : binomialCdf(hits - 1, next.size - pairs, 0.05);
      return binomialCdf(hits, next.size - pairs, 0.05) - below;
    });
    for (const [before, probability] of going) {
      for (const [hits, one] of added.entries()) {
        if (one > 1e-9) reached.set(before + hits, (reached.get(before + hits) ?? 0) + probability * one);
      }
    }
    pairs = next.size;
    going = new Map();
    for (const [hits, probability] of reached) {
      const { outcome } = decideGate(thresholds, failing(pairs, hits), { level });
      if (outcome === 'cannot-tell' && !isEnd) going.set(hits, probability);
      else ended[outcome] += probability;
    }
  }
  expect(ended.passed + ended.failed + ended['cannot-tell']).toBeCloseTo(1, 4);
  // Exact bounds of counts keep below the level.
  expect(ended.passed).toBeGreaterThan(0.02);
  expect(ended.passed).toBeLessThan(0.05);
  expect(ended.failed).toBeGreaterThan(0.02);
  expect(ended.failed).toBeLessThan(0.05);
});

test('a threshold stays as it was decided', () => {
  const thresholds = ['newly_failing:50', 'newly_failing:1'].map(parseThreshold);
  const gate = new SequentialGate({ thresholds, planned: 100, expected: 1000 });
  gate.look(failing(60, 3), 60, false);
  expect(gate.result.thresholds.map(({ outcome }) => outcome)).toEqual(['passed', 'cannot-tell']);
  gate.look(failing(120, 119), 120, false);
  expect(gate.result.thresholds.map(({ outcome, seen }) => [outcome, seen])).toEqual([
    ['passed', 60],
    ['failed', 120],
  ]);
  expect(gate.result).toMatchObject({ outcome: 'failed', exitCode: 1 });
  expect(gate.open).toEqual([]);
});

const LATENCY = METRIC_TAGS.indexOf('request_latency');

/** An earlier run with these requests, all answered within 100 ms. */
function earlierRun(ids: readonly string[]): RunData {
  const requests = new RequestTable(METRIC_TAGS.length);
  for (const [i, name] of ids.entries()) {
    const values = METRIC_TAGS.map((_, metric) => (metric === LATENCY ? 100 : Number.NaN));
    requests.add({ name, file: 'a.jsonl', line: i + 1 }, 'ok', values);
  }
  RequestTable.seal(requests);
  return { requests } as RunData;
}

const request = (ordinal: number, eventId = `e${ordinal}`, more: Partial<PreparedRequest> = {}): PreparedRequest =>
  ({ ordinal, eventId, file: 'a.jsonl', line: ordinal + 1, pass: 0, ...more }) as PreparedRequest;

const measured = (of: PreparedRequest, ms: number | 'failed'): Measured =>
  ({
    request: of,
    exchange: { endAt: 0 },
    scheduledAt: 0,
    metrics: ms === 'failed' ? {} : { request_latency: ms },
    ...(ms === 'failed' ? { error: { type: 'x', message: 'y' } } : {}),
    cancelled: false,
  }) as Measured;

const ids = (count: number): string[] => Array.from({ length: count }, (_, i) => `e${i}`);

/** Lets everything run that does not wait for something else. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('live pairs', () => {
  test('waits for a slow request at the front, and compares the front alone', async () => {
    const pairs = new LivePairs(earlierRun(ids(4)), ['request_latency']);
    const requests = [0, 1, 2, 3].map((i) => request(i));
    for (const one of requests) pairs.announce(one);
    let size: number | undefined;
    void pairs.settled(2).then((found) => {
      size = found;
    });
    for (const i of [3, 1, 2]) await pairs.ended(measured(requests[i] as PreparedRequest, 50), undefined);
    await turn();
    expect(size).toBeUndefined();
    await pairs.ended(measured(requests[0] as PreparedRequest, 900), undefined);
    await turn();
    expect(size).toBe(2);
    const { metrics, pairs: counts } = pairs.compared(2, false);
    expect([...(metrics.request_latency?.after ?? [])]).toEqual([900, 50]);
    expect(counts).toEqual({ requests: 2, known: 2, newlyFailing: 0, newlySucceeding: 0 });
  });

  test('counts requests without a pair as not seen, and each earlier request once', async () => {
    const pairs = new LivePairs(earlierRun(['e0', 'e2']), ['request_latency']);
    const requests = [request(0), request(1), request(2, 'e0'), request(3, 'e2')];
    for (const one of requests) pairs.announce(one);
    for (const one of requests) await pairs.ended(measured(one, one.eventId === 'e2' ? 'failed' : 80), undefined);
    expect(await pairs.settled(2)).toBe(2);
    const found = pairs.compared(2, false);
    expect(found.failures).toEqual([
      [0, 2],
      [1, 4],
    ]);
    expect(found.pairs).toMatchObject({ requests: 2, newlyFailing: 1 });
    expect(found.metrics.request_latency).toMatchObject({ after: Float64Array.of(80), of: 4 });
    expect(pairs.requestsUpTo(2)).toBe(4);
  });

  test('finds a request by its line if others of the earlier run share its id', async () => {
    const earlier = new RequestTable(METRIC_TAGS.length);
    for (const line of [1, 2]) {
      earlier.add(
        { name: 'twice', file: 'a.jsonl', line },
        line === 1 ? 'ok' : 'failed',
        METRIC_TAGS.map(() => line),
      );
    }
    RequestTable.seal(earlier);
    const pairs = new LivePairs({ requests: earlier } as RunData, ['request_latency']);
    const requests = [request(0, 'twice', { line: 2 }), request(1, 'twice', { line: 1 })];
    for (const one of requests) pairs.announce(one);
    for (const one of requests) await pairs.ended(measured(one, 5), undefined);
    expect(pairs.compared(2, false).pairs).toMatchObject({ requests: 2, newlySucceeding: 1 });
  });

  test('ends with what has ended when the replay is over', async () => {
    const pairs = new LivePairs(earlierRun(ids(3)), []);
    const requests = [0, 1, 2].map((i) => request(i));
    for (const one of requests) pairs.announce(one);
    const waiting = pairs.settled(3);
    await pairs.ended(measured(requests[2] as PreparedRequest, 5), undefined);
    pairs.over();
    expect(await waiting).toBe(3);
    expect(pairs.compared(3, false).pairs.requests).toBe(1);
  });
});

const stored = (id: string, after: string): StoredReply =>
  ({
    ...{ key: id, request_id: id, file: 'a.jsonl', line: 1, input: '' },
    messages: [{ role: 'user', content: 'q' }],
    reply: { ok: true, text: after },
  }) as StoredReply;

/** Earlier replies that all were `short`. */
const earlierReplies = {
  pair: async (_: string, reply: StoredReply) => ({
    ...reply,
    captured: { ok: true, text: 'short' },
    comparison: { status: 'both-ok', identical: false, same: false },
  }),
} as unknown as EarlierReplies;

/** Runs a gate on `count` requests that all end, in the order of the schedule. */
async function decided(
  until: UntilDecided,
  pairs: LivePairs,
  count: number,
  end: (i: number) => [ms: number | 'failed', reply?: StoredReply],
): Promise<{ found: LookedAt | undefined; ended: number }> {
  const running = until.run();
  let isDecided = false;
  void running.then(() => {
    isDecided = true;
  });
  let ended = 0;
  for (; ended < count && !isDecided; ended++) {
    const one = request(ended);
    pairs.announce(one);
    const [ms, reply] = end(ended);
    await pairs.ended(measured(one, ms), reply);
    await turn();
  }
  pairs.over();
  return { found: await running, ended };
}

describe('until decided', () => {
  const gate = (texts: readonly string[], planned: number, expected: number) => ({
    thresholds: texts.map(parseThreshold),
    planned,
    expected,
  });

  test('ends at the look that decides the last threshold', async () => {
    const pairs = new LivePairs(earlierRun(ids(400)), ['request_latency']);
    const until = new UntilDecided({ ...gate(['request_latency:p50:10%', 'newly_failing:10'], 200, 400), pairs });
    const { found, ended } = await decided(until, pairs, 400, (i) => [140 + (i % 7)]);
    expect(found).toMatchObject({ endedBy: 'all thresholds decided', gate: { outcome: 'failed', exitCode: 1 } });
    expect(found?.gate.thresholds.map(({ outcome }) => outcome)).toEqual(['failed', 'passed']);
    expect(found?.requests).toBe(found?.looks.at(-1)?.pairs);
    expect(ended).toBeLessThan(120);
  });

  test('goes on to the end of the captures if it cannot tell', async () => {
    const pairs = new LivePairs(earlierRun(ids(100)), []);
    const until = new UntilDecided({ ...gate(['newly_failing:10'], 100, 100), pairs });
    const { found, ended } = await decided(until, pairs, 100, (i) => [i % 10 === 0 ? 'failed' : 5]);
    expect(found).toMatchObject({ endedBy: 'end of the captures', gate: { outcome: 'cannot-tell', exitCode: 3 } });
    expect(ended).toBe(100);
    expect(found?.looks).toHaveLength(10);
  });

  test('looks at what there is if some of the captures could not be sent', async () => {
    const pairs = new LivePairs(earlierRun(ids(100)), []);
    const until = new UntilDecided({ ...gate(['newly_failing:10'], 100, 100), pairs });
    const { found } = await decided(until, pairs, 57, (i) => [i % 20 === 0 ? 'failed' : 5]);
    expect(found).toMatchObject({ requests: 57, endedBy: 'end of the captures', gate: { outcome: 'cannot-tell' } });
    expect(found?.looks.at(-1)).toMatchObject({ pairs: 57 });
  });

  test('cannot tell without any pair', async () => {
    const pairs = new LivePairs(earlierRun(ids(100)), []);
    const until = new UntilDecided({ ...gate(['newly_failing:10'], 100, 100), pairs });
    const { found } = await decided(until, pairs, 0, () => [5]);
    expect(found).toMatchObject({ requests: 0, looks: [], gate: { outcome: 'cannot-tell' } });
  });

  test('takes no look after it was canceled', async () => {
    const pairs = new LivePairs(earlierRun(ids(100)), []);
    const until = new UntilDecided({ ...gate(['newly_failing:10'], 100, 100), pairs });
    const running = until.run();
    until.cancel();
    pairs.over();
    expect(await running).toBeUndefined();
  });

  test('asks the judge up to the look, and not about the pairs after it', async () => {
    const pairs = new LivePairs(earlierRun(ids(300)), [], earlierReplies);
    const { judge, asks } = scriptedJudge(({ prompt }, text) =>
      told(
        goodAnswer(prompt.scorers).replace(
          'reply 1',
          text.indexOf('short') < text.indexOf('longer') ? 'reply 1' : 'reply 2',
        ),
      ),
    );
    const until = new UntilDecided({ ...gate(['judged_worse:10'], 100, 300), pairs, judging: { judge } });
    const { found } = await decided(until, pairs, 300, (i) => [5, stored(`e${i}`, 'longer')]);
    expect(found?.gate).toMatchObject({ outcome: 'failed', thresholds: [{ open: 0, worse: 100 }] });
    const seen = found?.looks.at(-1)?.pairs ?? 0;
    expect(asks).toHaveLength(2 * seen);
    expect(until.verdicts?.judged).toMatchObject({ worse: seen });
    expect([...(until.verdicts?.byRequest.keys() ?? [])]).toEqual(ids(seen));
  });

  test('ends when the judge fails and nothing else is open', async () => {
    const pairs = new LivePairs(earlierRun(ids(300)), [], earlierReplies);
    const { judge } = scriptedJudge(() => {
      throw new Error('gone');
    });
    const failing = { ...judge, judge: () => Promise.reject(new PermanentError('JudgeModelGone', 'gone')) };
    const until = new UntilDecided({ ...gate(['judged_worse:10'], 100, 300), pairs, judging: { judge: failing } });
    const { found } = await decided(until, pairs, 300, (i) => [5, stored(`e${i}`, 'longer')]);
    expect(found).toMatchObject({ endedBy: 'end of the judge', gate: { outcome: 'cannot-tell' } });
    expect(until.verdicts?.failure).toMatchObject({ name: 'JudgeModelGone' });
  });
});
