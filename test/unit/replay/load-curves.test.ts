import type { Exchange } from '../../../lambda/replay/http/exchange.ts';
import { LoadCurves } from '../../../lambda/replay/measure/load-curves.ts';
import type { Measured, MetricValues } from '../../../lambda/replay/measure/measure.ts';
import { Random } from '../../../lambda/replay/random.ts';
import { LoadFigures } from '../../../lambda/replay/results/load-figures.ts';

const START = 5000;

/** @param start, end ms after the start of the clock */
const measured = (start: number, end: number, metrics: MetricValues = {}, gaps?: number[]): Measured =>
  ({
    exchange: { startedAt: START + start, endAt: START + end } as Exchange,
    metrics,
    ...(gaps ? { gaps } : {}),
  }) as Measured;

const curvesOf = (all: readonly Measured[]): LoadCurves => {
  const curves = new LoadCurves();
  for (const one of all) curves.add(one, START);
  return curves;
};
const figuresOf = (curves: LoadCurves, fromMs?: number, toMs?: number) =>
  Object.fromEntries(new LoadFigures(curves).window(fromMs, toMs).map(({ tag, result }) => [tag, result]));
const throughJson = (curves: LoadCurves) => JSON.parse(JSON.stringify(curves)) as ReturnType<LoadCurves['toJSON']>;

test('two requests that overlap', () => {
  // Under way: 1 for 10 ms, 2 for 10 ms, 1 for 20 ms, none for 40 ms, 1 for 20 ms.
  const all = [measured(0, 20), measured(10, 40), measured(80, 100)];
  const figures = figuresOf(curvesOf(all));
  expect(figures.effective_concurrency).toEqual({
    unit: 'requests',
    avg: expect.closeTo(0.7, 9),
    min: 0,
    max: 2,
    p50: 1,
    p90: 1,
    p95: 2,
    p99: 2,
    std: expect.closeTo(Math.sqrt((40 * 0.7 ** 2 + 50 * 0.3 ** 2 + 10 * 1.3 ** 2) / 100), 9),
  });
  // Without a stream nothing is known of tokens over time: a 0 would be a lie.
  expect(Object.keys(figures)).toEqual(['effective_concurrency']);
  expect(figuresOf(curvesOf(all), 10, 30).effective_concurrency).toMatchObject({ avg: 1.5, min: 1, max: 2 });
});

test('tokens of a stream', () => {
  // 100 tokens are read for 50 ms; then come 5 tokens, one at once and one with each of four pieces.
  const metrics = { time_to_first_token: 50, input_sequence_length: 100, output_sequence_length: 5 };
  const all = [measured(0, 100, metrics, [10, 10, 10, 10]), measured(150, 200)];
  const figures = figuresOf(curvesOf(all));
  expect(figures.effective_prefill_throughput).toMatchObject({ unit: 'tokens/sec', avg: 500, max: 2000, p50: 0 });
  expect(figures.active_prefill_throughput).toMatchObject({ avg: 2000, min: 2000, max: 2000, std: 0 });
  // Four tokens in 200 ms; a hundred a second while they come, none in the last 10 ms.
  expect(figures.effective_decode_throughput?.avg).toBeCloseTo(20, 9);
  expect(figures.active_decode_throughput).toMatchObject({ avg: expect.closeTo(80, 9), min: 0, p50: 100, max: 100 });
  expect(figures.active_decode_throughput_per_user).toMatchObject({ max: 100 });
  // Evenly over the 50 ms after the first token; 100 ms of the 200 are those of the stream, 50 those of the other.
  expect(figures.active_total_throughput?.avg).toBeCloseTo(104 / 0.15, 6);
  expect(figures.effective_decode_concurrency).toMatchObject({ avg: 0.25, max: 1 });
  // 100 for 50 ms, then 101 to 105.
  expect(figures.tokens_in_flight).toMatchObject({ max: 105, min: 0 });
  expect(figures.tokens_in_flight?.avg).toBeCloseTo((100 * 50 + 10 * (101 + 102 + 103 + 104 + 105)) / 200, 6);
});

describe('a long run', () => {
  const random = new Random(3);
  const all = Array.from({ length: 4000 }, (_, i) => {
    const start = i * 60 + 50 * random.next();
    const first = 100 + 400 * random.next();
    const gaps = Array.from({ length: 1 + Math.floor(10 * random.next()) }, () => 200 * random.next());
    const end = start + first + gaps.reduce((sum, gap) => sum + gap, 0);
    const metrics = { time_to_first_token: first, input_sequence_length: 50, output_sequence_length: gaps.length + 1 };
    return i % 5 === 0 ? measured(start, end) : measured(start, end, metrics, gaps);
  });
  const whole = curvesOf(all);
  const lastMs = Math.max(...all.map(({ exchange }) => exchange.endAt)) - START;
  const firstMs = Math.min(...all.map(({ exchange }) => exchange.startedAt)) - START;
  const spanMs = lastMs - firstMs;

  test('widens its steps, and keeps the means exact', () => {
    expect(whole.stepMs).toBe(8);
    const figures = figuresOf(whole);
    const busy = all.reduce((sum, { exchange }) => sum + exchange.endAt - exchange.startedAt, 0);
    expect(figures.effective_concurrency?.avg).toBeCloseTo(busy / spanMs, 6);
    const streams = all.filter(({ gaps }) => gaps);
    expect(figures.effective_prefill_throughput?.avg).toBeCloseTo((streams.length * 50 * 1000) / spanMs, 6);
    const later = streams.reduce((sum, { gaps }) => sum + (gaps?.length ?? 0), 0);
    expect(figures.effective_decode_throughput?.avg).toBeCloseTo((later * 1000) / spanMs, 5);
    // Asked moment by moment.
    const counts = Array.from({ length: 2_000 }, () => {
      const at = START + firstMs + random.next() * spanMs;
      return all.filter(({ exchange }) => exchange.startedAt <= at && exchange.endAt > at).length;
    }).sort((a, b) => a - b);
    for (const percent of [50, 90, 99]) {
      const expected = counts[Math.floor((counts.length * percent) / 100)] ?? 0;
      expect(Math.abs(Number(figures.effective_concurrency?.[`p${percent}`]) - expected)).toBeLessThanOrEqual(0.75);
    }
  });

  test('is the same in shards, whatever the width of their steps', () => {
    const merged = new LoadCurves();
    const shards = [
      all.filter((_, i) => i < 300 && i % 2 === 0),
      all.filter((_, i) => i < 300 && i % 2 === 1),
      all.filter((_, i) => i >= 300),
    ].map(curvesOf);
    expect(shards.map(({ stepMs }) => stepMs)).toEqual([1, 1, 8]);
    for (const shard of shards) merged.merge(throughJson(shard));
    expect(merged.stepMs).toBe(8);
    const expected = figuresOf(whole);
    const found = figuresOf(merged);
    expect(Object.keys(found)).toEqual(Object.keys(expected));
    for (const [tag, result] of Object.entries(expected)) {
      const tolerance = Math.max(1, Number(result.max)) * 1e-4;
      for (const [key, value] of Object.entries(result)) {
        if (typeof value === 'number') expect(Math.abs(Number(found[tag]?.[key]) - value)).toBeLessThan(tolerance);
      }
    }
  });
});

test('a run without requests has no curves', () => {
  expect(figuresOf(new LoadCurves())).toEqual({});
  const merged = new LoadCurves();
  merged.merge(throughJson(new LoadCurves()));
  expect(merged.toJSON()).toEqual({ stepMs: 1, firstMs: null, lastMs: null, streamed: false, curves: {} });
});
