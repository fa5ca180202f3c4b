/** The figures of a request and of a run, and merging the statistics of shards. */

import fc from 'fast-check';
import { Random } from '../../../src/core/values/random.ts';
import { runClock } from '../../../src/replay/clock.ts';
import { clientBottleneck, neverSent } from '../../../src/replay/finished.ts';
import { describeSocketError } from '../../../src/replay/http/connection.ts';
import { Exchange, type ExchangeError } from '../../../src/replay/http/exchange.ts';
import { Distribution } from '../../../src/replay/measure/distribution.ts';
import { CANCELLED_TYPE, type Measured, measure, openReader } from '../../../src/replay/measure/measure.ts';
import { ReportCollector } from '../../../src/replay/measure/report-collector.ts';
import { RunStats } from '../../../src/replay/measure/run-stats.ts';
import { ratePerSecond } from '../../../src/replay/report/charts.ts';
import type { PreparedRequest } from '../../../src/replay/request/preparer.ts';
import { recordLine } from '../../../src/replay/results/result-set.ts';
import { figures } from '../../../src/replay/results/summary.ts';

const START = 1000;
const clock = runClock(1_795_000_000_000);

function request(i: number): PreparedRequest {
  const body = Buffer.from('{}');
  return {
    pass: 0,
    dueMs: i * 10,
    wire: Buffer.concat([Buffer.from('POST / HTTP/1.1\r\n\r\n'), body]),
    bodyAt: 19,
    contentType: 'application/json',
    isJson: true,
    streaming: false,
    conversationId: `c${i}`,
    number: i,
    requestId: `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`,
    file: 'a.jsonl',
    line: i + 1,
    place: { source: { path: 'a.jsonl', name: 'a.jsonl', size: 1 }, start: 0, end: 0 },
    capturedMs: 0,
    capturedTimes: { time_to_first_token_ms: 10 + i, latency_ms: 100 + i },
    inputTokens: { count: 10, source: 'estimate' },
  };
}

/** Request i, sent 10 × i ms after the start and answered after `latency`. */
function exchanged(i: number, latency: number, error?: ExchangeError, more: Partial<PreparedRequest> = {}): Measured {
  const prepared = { ...request(i), ...more };
  let done: Measured | undefined;
  const scheduledAt = START + prepared.dueMs;
  const exchange = new Exchange(prepared.wire, (finished) => {
    done = measure(
      { request: prepared, exchange: finished, scheduledAt, roomAt: scheduledAt },
      new Map([['request_latency', 60]]),
    );
  });
  exchange.startedAt = scheduledAt + 1;
  const end = exchange.startedAt + latency;
  if (error) {
    exchange.finish(end, error);
  } else {
    const body = Buffer.from(
      '{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}',
    );
    exchange.lastByteAt = end;
    exchange.onHead(200, new Map([['content-type', 'application/json']]), 'OK');
    exchange.onBody(body, 0, body.length);
    exchange.onEnd();
  }
  if (!done) throw new Error('the exchange did not end');
  return done;
}

const random = new Random(7);
const all = Array.from({ length: 600 }, (_, i) =>
  exchanged(
    i,
    20 + 100 * random.next(),
    i % 17 === 0 ? { code: 500, type: 'Internal Server Error', message: 'no' } : undefined,
  ),
);
const json = <T>(value: unknown): T => JSON.parse(JSON.stringify(value)) as T;

function statsOf(part: readonly Measured[], epochMs = (at: number): number => at): RunStats {
  const stats = new RunStats();
  for (const one of part) stats.add(one, epochMs);
  return stats;
}

test('measures a stream on a new connection', () => {
  const prepared = { ...request(0), wire: Buffer.alloc(2048), bodyAt: 2048, outputLimit: 4 };
  const exchange = new Exchange(prepared.wire, jest.fn(), (status, headers) => openReader(status, headers, true));
  exchange.startedAt = 1000;
  for (const [at, event] of [
    [1050, '{"choices":[{"delta":{"reasoning_content":"a"}}]}'],
    [1070, '{"choices":[{"delta":{"content":"b"}}]}'],
    [1110, '{"choices":[{"delta":{"content":"c"}}],"usage":{"prompt_tokens":5,"completion_tokens":3}}'],
  ] as const) {
    const piece = Buffer.from(`data: ${event}\n\n`);
    exchange.lastByteAt = at;
    if (at === 1050) exchange.onHead(200, new Map([['content-type', 'text/event-stream']]), 'OK');
    exchange.onBody(piece, 0, piece.length);
  }
  exchange.onEnd();
  const found = measure(
    { request: prepared, exchange, scheduledAt: 990, roomAt: 995 },
    new Map([['time_to_first_token', 50]]),
  );
  expect(found.metrics).toEqual({
    ...{ request_latency: 110, time_to_first_token: 50, time_to_second_token: 20, time_to_first_output_token: 70 },
    ...{ inter_token_latency: 30, output_token_throughput_per_user: 1000 / 30 },
    ...{ e2e_output_token_throughput: 3000 / 110, osl_mismatch_diff_pct: -25 },
    ...{ input_sequence_length: 5, output_sequence_length: 3 },
    good_request_count: 1,
  });
  const stats = statsOf([found]);
  expect(stats.distribution('inter_chunk_latency')).toMatchObject({ count: 2, min: 20, max: 40 });
  expect(stats.distribution('captured_latency')).toMatchObject({ count: 1, sum: 100 });
  expect(stats.distribution('captured_time_to_first_token')).toMatchObject({ count: 1, sum: 10 });
});

test('merges the statistics of three shards into those of the whole run', () => {
  const whole = statsOf(all, clock.epochMs);
  const merged = new RunStats();
  for (const shard of [0, 1, 2]) {
    const part = all.filter((_, i) => i % 3 === shard);
    merged.merge(json(statsOf(part, clock.epochMs).toJSON()));
  }
  expect({ ...merged.toJSON(), distributions: {} }).toMatchObject({
    ...whole.toJSON(),
    distributions: {},
    busyMs: expect.closeTo(whole.busyMs, 6),
  });
  const [a, b] = [figures(merged), figures(whole)];
  expect([...a.keys()].sort()).toEqual([...b.keys()].sort());
  for (const [tag, result] of b) {
    for (const [key, value] of Object.entries(result)) {
      if (typeof value === 'number') expect(a.get(tag)?.[key]).toBeCloseTo(value, 6);
    }
  }
  expect(b.get('request_count')?.avg).toBe(600 - 36);
  expect(b.get('good_request_count')?.avg).toBe(
    all.filter(({ error, metrics }) => !error && (metrics.request_latency ?? 0) <= 60).length,
  );
});

test.each([
  // The reply has two tokens. The tolerance is 5% of the limit, or 50 tokens.
  [undefined, undefined, undefined],
  [2, 0, 0],
  [3, 1, -33.333],
  [50, 1, -96],
  [1, 1, 100],
])('compares a reply with the token limit %j of its request', (outputLimit, mismatches, percent) => {
  const merged = new RunStats();
  merged.merge(json(statsOf([exchanged(1, 10, undefined, { outputLimit })]).toJSON()));
  const results = figures(merged);
  expect(results.get('osl_mismatch_count')?.avg).toBe(mismatches);
  const found = results.get('osl_mismatch_diff_pct');
  if (percent === undefined) expect(found).toBeUndefined();
  else for (const key of ['avg', 'p50', 'min', 'max']) expect(Number(found?.[key])).toBeCloseTo(percent, 2);
});

test('computes percentiles of values below zero', () => {
  const limits = [1, 2, 4, 8, 16, 32, 64, 128, 256];
  const stats = statsOf(limits.map((outputLimit) => exchanged(1, 10, undefined, { outputLimit })));
  const found = figures(stats).get('osl_mismatch_diff_pct');
  expect(found).toMatchObject({ min: expect.closeTo(-99.22, 2), max: 100, p50: expect.closeTo(-87.5, 1) });
  expect(found?.p25).toBeCloseTo(-96.875, 1);
  // Interpolated between 0 and 100, the eighth and the ninth value.
  expect(found?.p90).toBeCloseTo(20, 1);
});

test('counts requests that are too long for the model', () => {
  const messages = ["This model's maximum context length is 4096 tokens.", 'Prompt is too long', 'no', 'Overloaded'];
  const errors = messages.map((message) => ({ code: 400, type: 'Bad Request', message }));
  const stats = statsOf(errors.map((error) => exchanged(1, 10, error)));
  expect(figures(stats).get('context_overflow_count')?.avg).toBe(2);
});

test('counts failed requests by their errors, and canceled ones by who canceled them', () => {
  const stats = new RunStats();
  const add = (type: string, message: string, more = {}): void =>
    stats.add(exchanged(1, 10, { type, message }, more), (at) => at);
  for (const cancelAfterMs of [undefined, 5, 5]) add(CANCELLED_TYPE, '', { cancelAfterMs });
  for (let i = 0; i < 300; i++) add('Refused', `number ${i}`);
  expect(stats).toMatchObject({ failed: 303, cancelled: 3, cancelledOnPurpose: 2, failures: 301 });
  expect(stats.errorsByCount).toHaveLength(201);
  expect(stats.errorsByCount[0]).toMatchObject({ error: { type: 'OtherErrors' }, count: 101 });
});

test('merges the data of reports on the common clock', () => {
  const collect = (part: Measured[]): ReportCollector => {
    const found = new ReportCollector();
    for (const one of part) found.add(one, START);
    return found;
  };
  const whole = collect(all);
  const merged = new ReportCollector();
  for (const shard of [0, 1]) merged.merge(json(collect(all.filter((_, i) => i % 2 === shard)).toJSON()));
  expect(merged.bucketMs).toBe(whole.bucketMs);
  const counts = (report: ReportCollector) =>
    [...report.buckets]
      .sort(([a], [b]) => a - b)
      .map(([index, { sent, completed, failed, maxEffective }]) => [index, sent, completed, failed, maxEffective]);
  expect(counts(merged)).toEqual(counts(whole));
  const slowest = Math.max(...all.filter(({ error }) => !error).map((one) => one.exchange.endAt - one.scheduledAt));
  expect(Math.max(...[...merged.buckets.values()].map(({ maxEffective }) => maxEffective))).toBe(slowest);
  expect(merged.slowest.map(({ line }) => line)).toEqual(whole.slowest.map(({ line }) => line));
  expect(merged.toJSON().errorPoints).toHaveLength(36);
  // Six seconds in buckets of 250 ms. A long run has longer buckets, not more of them.
  const long = new ReportCollector();
  for (const one of all) long.add(one, START - 3_600_000);
  expect(long.buckets.size).toBeLessThanOrEqual(240);
  expect(long.bucketMs).toBe(16_000);
});

test('samples the merged requests of shards in proportion to their sizes', () => {
  const one = exchanged(1, 10);
  const merged = new ReportCollector();
  for (const [i, requests] of [500, 20_000, 500].entries()) {
    const shard = new ReportCollector();
    for (let n = 0; n < requests; n++) shard.add(one, one.exchange.startedAt - 1000 * i);
    merged.merge(json(shard.toJSON()));
  }
  const { points } = merged.toJSON();
  const of = (seconds: number): number => points.filter(([at]) => at === seconds).length;
  expect(points).toHaveLength(1500);
  // 36 of each small shard are expected.
  for (const small of [of(0), of(2)]) {
    expect(small).toBeGreaterThan(15);
    expect(small).toBeLessThan(65);
  }
});

test('computes the rate of requests that were sent in one second', () => {
  const report = new ReportCollector();
  for (const one of all.slice(0, 6)) report.add(one, one.exchange.startedAt - 2_100);
  expect(report.bucketMs).toBe(250);
  expect(ratePerSecond(report, ({ sent }) => sent).join(' ')).toBe('0.5,0 1.5,0 2.5,6');
});

test('writes the times of a record with nanosecond precision', () => {
  const line = recordLine(exchanged(3, 50.123456), clock, 'w');
  expect(line).toMatch(/"request_start_ns":1795000001031000000,/);
  expect(line).toMatch(/"request_end_ns":1795000001081123456,/);
  expect(line).toMatch(/"scheduled_ns":1795000001030000000/);
  expect(JSON.parse(line)).toMatchObject({ metrics: { request_latency: { value: 50.123456, unit: 'ms' } } });
});

// Whether the client was the bottleneck of a run.

/** Statistics of 100 requests, two of which the client delayed. */
function delayed(latencyMs: number, heldUpMs: number): RunStats {
  const found = new RunStats();
  for (let i = 0; i < 100; i++) {
    found.distribution('request_latency').add(latencyMs);
    found.distribution('replay_client_lag').add(i < 2 ? heldUpMs : 0.2);
  }
  return found;
}

test.each([
  ['tolerates a delay below a tenth of the latency', 50, 9, undefined],
  [
    'reports a delay above 10 ms and a tenth of the latency',
    50,
    12,
    '1% of the requests were sent 12.0 ms or more after their scheduled time',
  ],
  ['tolerates the same delay if the latency is long', 500, 12, undefined],
  ['reports a delay above a tenth of a long latency', 500, 60, 'expected: at most 50.0 ms'],
])('%s', (_, latencyMs, heldUpMs, said) => {
  const bottleneck = clientBottleneck(delayed(latencyMs, heldUpMs));
  if (said === undefined) expect(bottleneck).toBeUndefined();
  else expect(bottleneck).toContain(said);
});

test('reports nothing for a run without requests', () => expect(clientBottleneck(new RunStats())).toBeUndefined());

test('attributes missing file descriptors to this machine, not to the target', () => {
  const found = new RunStats();
  found.succeeded = 80;
  const full = Object.assign(new Error('connect EMFILE 127.0.0.1:80'), { code: 'EMFILE' });
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
  for (const [error, count] of [
    [full, 120],
    [refused, 5],
  ] as const) {
    found.errors.set(error.code, { error: describeSocketError(error), count });
  }
  const said = '120 requests never left this machine: TooManyOpenFiles: connect EMFILE 127.0.0.1:80';
  expect([neverSent(found), clientBottleneck(found)]).toEqual([said, said]);
  found.errors.delete('EMFILE');
  expect(neverSent(found)).toBeUndefined();
});

const value = fc.oneof(fc.nat(5000), fc.integer({ min: 0, max: 2 ** 31 }), fc.maxSafeNat());

/** Returns the percentile of the sorted values themselves, as numpy computes it. */
const exact = (values: number[], percent: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const place = ((sorted.length - 1) * percent) / 100;
  const [low = 0, high = low] = sorted.slice(Math.floor(place), Math.floor(place) + 2);
  return low + (place - Math.floor(place)) * (high - low);
};

describe('a distribution', () => {
  const of = (values: number[]): Distribution => {
    const distribution = new Distribution(1000);
    for (const one of values) distribution.add(one);
    return distribution;
  };
  const latency = fc.double({ min: 0, max: 1e6, noNaN: true });

  test('is accurate to three digits', () => {
    fc.assert(
      fc.property(fc.array(value, { minLength: 1 }), fc.integer({ min: 1, max: 100 }), (values, percent) => {
        const distribution = new Distribution(1);
        for (const one of values) distribution.add(one);
        const truth = exact(values, percent);
        expect(Math.abs(distribution.percentile(percent) - truth)).toBeLessThanOrEqual(Math.max(0.5, truth / 1000));
      }),
    );
  });

  test('merges parts that were stored as JSON into the distribution of all values', () => {
    fc.assert(
      fc.property(fc.array(latency, { minLength: 1 }), fc.array(latency, { minLength: 1 }), (a, b) => {
        const merged = of(a);
        merged.merge(JSON.parse(JSON.stringify(of(b))));
        const whole = of([...a, ...b]).summary();
        const summary = merged.summary();
        for (const key of ['p1', 'p50', 'p99', 'min', 'max', 'count'] as const)
          expect(summary?.[key]).toBe(whole?.[key]);
        for (const key of ['avg', 'std', 'sum'] as const)
          expect(summary?.[key]).toBeCloseTo(whole?.[key] ?? Number.NaN, 3);
      }),
    );
  });

  // Expected: numpy.percentile, which AIPerf uses.
  test.each([
    [[100, 1000], 50, 550],
    [[1, 2, 3, 4, 1000], 95, 800.8],
    [[1, 2, 3, 4, 1000], 99, 960.16],
    [[7], 1, 7],
  ])('computes the same percentile as AIPerf: %j, p%i', (values, percent, expected) => {
    expect(Math.abs(of(values).percentile(percent) - expected)).toBeLessThanOrEqual(expected / 1000);
  });

  test('has an exact mean, deviation, minimum and maximum', () => {
    const summary = of([10, 20, 30, 40]).summary();
    expect(summary).toMatchObject({ avg: 25, min: 10, max: 40, count: 4, sum: 100 });
    expect(summary?.std).toBeCloseTo(Math.sqrt(125), 10);
  });

  test('has no summary while it is empty', () => {
    expect(of([]).summary()).toBeUndefined();
  });

  test('puts every value into a chart bucket', () => {
    fc.assert(
      fc.property(fc.array(latency, { minLength: 1 }), fc.integer({ min: 1, max: 60 }), (values, most) => {
        const buckets = of(values).buckets(most);
        expect(buckets.reduce((sum, [, , count]) => sum + count, 0)).toBe(values.length);
        expect(buckets.length).toBeLessThanOrEqual(most);
      }),
    );
  });
});
