/** AIPerf 0.13's figures of what was under way over time (`effective_…`, `active_…`, `tokens_in_flight`). */
import type { LoadCurves } from '../measure/load-curves.ts';
import type { MetricResult } from './summary.ts';

/** Statistics that AIPerf gives of a curve, weighted by time. */
const PERCENTILES = [50, 90, 95, 99];
const MS_PER_SECOND = 1000;
/** A step that is filled for less of it is empty: differences of sums leave residues. */
const NO_TIME_MS = 1e-6;

type Sums = ReturnType<LoadCurves['sums']>;
type StepSum = (step: number) => number;

interface CurveMetric {
  tag: string;
  header: string;
  unit: string;
  /** Amount × ms of a step. */
  sum: StepSum;
  /** Requests × ms of a step that the amount belongs to. */
  users: StepSum;
  /** The amount is one for each of them. */
  perUser?: boolean;
  scale: number;
  /** Only of the time in which there is one such request at least. */
  activeOnly?: boolean;
}

function curveMetrics(sums: Sums, streamed: boolean): CurveMetric[] {
  const sumOf =
    (...curves: Float64Array[]): StepSum =>
    (step) =>
      curves.reduce((total, curve) => total + (curve[step] ?? 0), 0);
  const { prefill, decode, plain, inputTokens, outputTokens, evenOutputTokens, tokensInFlight } = sums;
  const all = sumOf(prefill, decode, plain);
  const requests = (name: string, header: string, users: StepSum): CurveMetric => {
    return { tag: `effective_${name}`, header: `Effective ${header}`, unit: 'requests', sum: users, users, scale: 1 };
  };
  const metrics = [requests('concurrency', 'Concurrency', all)];
  if (!streamed) return metrics;
  const decoding = sumOf(decode);
  const prefilling = sumOf(prefill);
  metrics.push(requests('decode_concurrency', 'Decode Concurrency', decoding));
  metrics.push(requests('prefill_concurrency', 'Prefill Concurrency', prefilling));
  const rates: [string, string, StepSum, StepSum, boolean][] = [
    ['decode_throughput', 'Decode Throughput', sumOf(outputTokens), decoding, false],
    ['prefill_throughput', 'Prefill Throughput', sumOf(inputTokens), prefilling, false],
    ['total_throughput', 'Total Throughput', sumOf(inputTokens, evenOutputTokens), all, false],
    ['decode_throughput_per_user', 'Decode Throughput Per User', sumOf(outputTokens), decoding, true],
    ['prefill_throughput_per_user', 'Prefill Throughput Per User', sumOf(inputTokens), prefilling, true],
  ];
  for (const [name, header, sum, users, perUser] of rates) {
    const unit = perUser ? 'tokens/sec/user' : 'tokens/sec';
    const rate = { unit, sum, users, perUser, scale: MS_PER_SECOND };
    metrics.push({ ...rate, tag: `effective_${name}`, header: `Effective ${header}` });
    metrics.push({ ...rate, tag: `active_${name}`, header: `Active ${header}`, activeOnly: true });
  }
  const tokens = { sum: sumOf(tokensInFlight), users: all, scale: 1 };
  metrics.push({ tag: 'tokens_in_flight', header: 'Tokens In Flight', unit: 'tokens', ...tokens });
  return metrics;
}

/** Amounts, and for how long each was so. */
interface Held {
  values: number[];
  durations: number[];
}

function statistics({ values, durations }: Held, { unit, scale }: CurveMetric): MetricResult {
  const total = durations.reduce((sum, duration) => sum + duration, 0);
  const result: MetricResult = { unit, avg: 0, p50: 0, p90: 0, p95: 0, p99: 0, min: 0, max: 0, std: 0 };
  if (total <= 0) return result;
  const mean = values.reduce((sum, value, i) => sum + value * (durations[i] ?? 0), 0) / total;
  const squares = values.reduce((sum, value, i) => sum + (durations[i] ?? 0) * (value - mean) ** 2, 0);
  const order = Uint32Array.from(values.keys()).sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0));
  const at = (place: number): number => values[order[place] ?? 0] ?? 0;
  let seen = 0;
  let next = 0;
  for (let place = 0; place < order.length && next < PERCENTILES.length; place++) {
    seen += durations[order[place] ?? 0] ?? 0;
    while (next < PERCENTILES.length && seen >= ((PERCENTILES[next] ?? 100) / 100) * total - NO_TIME_MS) {
      result[`p${PERCENTILES[next++]}`] = at(place) * scale;
    }
  }
  return {
    ...result,
    avg: mean * scale,
    min: at(0) * scale,
    max: at(order.length - 1) * scale,
    std: Math.sqrt(squares / total) * scale,
  };
}

export interface LoadFigure {
  tag: string;
  header: string;
  result: MetricResult;
}

/** Reads many windows of the same curves. */
export class LoadFigures {
  readonly #load: LoadCurves;
  readonly #metrics: CurveMetric[];

  constructor(load: LoadCurves) {
    this.#load = load;
    this.#metrics = curveMetrics(load.sums(), load.streamed);
  }

  /** When the last reply ended, ms after the start of the clock. */
  get lastMs(): number {
    return this.#load.lastMs;
  }

  /** @param fromMs, toMs of the clock; default: from the first request to the last reply */
  window(fromMs = this.#load.firstMs, toMs = this.#load.lastMs): LoadFigure[] {
    if (!(toMs > fromMs)) return [];
    return this.#metrics.map((metric) => {
      const held = this.#held(metric, fromMs, toMs);
      return { tag: metric.tag, header: metric.header, result: statistics(held, metric) };
    });
  }

  #held({ sum, users, perUser, activeOnly }: CurveMetric, fromMs: number, toMs: number): Held {
    const { stepMs, firstMs, lastMs } = this.#load;
    const held: Held = { values: [], durations: [] };
    const hold = (value: number, duration: number): void => {
      if (duration <= NO_TIME_MS) return;
      held.values.push(value);
      held.durations.push(duration);
    };
    for (let step = Math.floor(fromMs / stepMs); step * stepMs < toMs; step++) {
      const begin = step * stepMs;
      const inWindow = Math.min(toMs, begin + stepMs) - Math.max(fromMs, begin);
      // Outside of the run nothing was under way: the sums are those of the part inside.
      const inRun = Math.min(lastMs, begin + stepMs) - Math.max(firstMs, begin);
      const used = users(step);
      // Requests that overlap within a step fill it together; how far, is not known to the last.
      const filled = used <= NO_TIME_MS ? 0 : Math.min(1, used / inRun);
      if (filled > 0) hold(perUser ? sum(step) / used : sum(step) / (filled * inRun), filled * inWindow);
      if (!activeOnly) hold(0, (1 - filled) * inWindow);
    }
    return held;
  }
}
