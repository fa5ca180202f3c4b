/**
 * How much was under way at each moment: requests, and their tokens, as step functions of time. AIPerf keeps every event
 * of a run and sorts them at its end; here they are summed in steps of time that widen with the run, so that memory does
 * not grow with it and shards of one clock add up. Means are exact; the other statistics are as fine as the steps: 1 ms
 * in a run of half a minute, 128 ms in one of an hour.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { Measured } from './measure.ts';

/** Steps in a curve; when a run outlasts them, two become one. Eight bytes each, twice for each of the curves: 3.5 MB. */
const MAX_STEPS = 32_768;
const FIRST_STEPS = 1024;
/** Differences of sums leave this part of the largest one where nothing is. */
const RESIDUE = 1e-9;

/** What is summed: each is an amount that is under way, times the milliseconds for which it is. */
const CURVES = [
  /** Requests whose first token is awaited; that stream; and those of which no first token is known. */
  'prefill',
  'decode',
  'plain',
  'inputTokens',
  /** Output tokens as their pieces came, and evenly over the time from the first to the end. */
  'outputTokens',
  'evenOutputTokens',
  'tokensInFlight',
] as const;
type CurveName = (typeof CURVES)[number];

export interface LoadCurvesJson {
  stepMs: number;
  firstMs: number | null;
  lastMs: number | null;
  streamed: boolean;
  /** Place of the first step, and the steps as 32 bit numbers, deflated, base64. */
  curves: Partial<Record<CurveName, { from: number; steps: string }>>;
}

/** One curve: `#steps` is what begins and ends in a step, `#change` where a constant amount sets in or ends. */
class Curve {
  #steps = new Float64Array(FIRST_STEPS);
  #change = new Float64Array(FIRST_STEPS);
  #last = -1;

  /** Adds `rate` from one moment to another, both in steps. */
  add(rate: number, from: number, to: number, stepMs: number): void {
    const first = Math.floor(from);
    const last = Math.floor(to);
    this.#reach(last + 1);
    if (first === last) {
      this.#steps[first] = (this.#steps[first] ?? 0) + rate * (to - from) * stepMs;
      return;
    }
    this.#steps[first] = (this.#steps[first] ?? 0) + rate * (first + 1 - from) * stepMs;
    this.#steps[last] = (this.#steps[last] ?? 0) + rate * (to - last) * stepMs;
    this.#change[first + 1] = (this.#change[first + 1] ?? 0) + rate * stepMs;
    this.#change[last] = (this.#change[last] ?? 0) - rate * stepMs;
  }

  #reach(index: number): void {
    if (index > this.#last) this.#last = index;
    if (index < this.#steps.length) return;
    const length = Math.max(index + 1, 2 * this.#steps.length);
    const grown = (old: Float64Array): Float64Array<ArrayBuffer> => {
      const all = new Float64Array(length);
      all.set(old);
      return all;
    };
    this.#steps = grown(this.#steps);
    this.#change = grown(this.#change);
  }

  /** The sums of all steps. */
  values(): Float64Array {
    const values = new Float64Array(this.#last + 1);
    let under = 0;
    let most = 0;
    for (let i = 0; i < values.length; i++) {
      under += this.#change[i] ?? 0;
      values[i] = under + (this.#steps[i] ?? 0);
      most = Math.max(most, values[i] ?? 0);
    }
    for (let i = 0; i < values.length; i++) if ((values[i] ?? 0) < most * RESIDUE) values[i] = 0;
    return values;
  }

  /** Two steps become one. */
  widen(): void {
    const values = this.values();
    const half = Math.ceil(values.length / 2);
    this.#steps = new Float64Array(Math.max(FIRST_STEPS, half));
    this.#change = new Float64Array(this.#steps.length);
    this.#last = -1;
    for (let i = 0; i < half; i++) this.put(i, (values[2 * i] ?? 0) + (values[2 * i + 1] ?? 0));
  }

  put(step: number, value: number): void {
    this.#reach(step);
    this.#steps[step] = (this.#steps[step] ?? 0) + value;
  }
}

export class LoadCurves {
  /** Width of a step. */
  #stepMs = 1;
  #curves = new Map<CurveName, Curve>();
  /** First start and last end, ms after the start of the clock. */
  firstMs = Number.POSITIVE_INFINITY;
  lastMs = Number.NEGATIVE_INFINITY;
  /** Whether any reply had a first token: without one nothing is known of tokens over time. */
  streamed = false;

  get stepMs(): number {
    return this.#stepMs;
  }

  /** @param startAt start of the run's clock, a time of `performance.now()` */
  add({ exchange, metrics, gaps }: Measured, startAt: number): void {
    const start = Math.max(0, exchange.startedAt - startAt);
    const end = Math.max(start, exchange.endAt - startAt);
    this.#span(start, end);
    const untilFirst = metrics.time_to_first_token;
    if (untilFirst === undefined) {
      this.#put('plain', 1, start, end);
      return;
    }
    this.streamed = true;
    const first = Math.min(end, start + untilFirst);
    this.#put('prefill', 1, start, first);
    this.#put('decode', 1, first, end);
    const input = metrics.input_sequence_length;
    if (input !== undefined && first > start) {
      this.#put('inputTokens', input / (first - start), start, first);
      this.#put('tokensInFlight', input, start, end);
    }
    const output = metrics.output_sequence_length;
    if (output !== undefined && output >= 1) this.#addOutput(output, first, end, gaps ?? []);
  }

  /** The first token comes at once; the others evenly with the pieces that follow, or with the time where there are none. */
  #addOutput(output: number, first: number, end: number, gaps: readonly number[]): void {
    if (end <= first) return;
    const evenly = (output - 1) / (end - first);
    this.#put('evenOutputTokens', evenly, first, end);
    if (gaps.length === 0) {
      this.#put('outputTokens', evenly, first, end);
      this.#put('tokensInFlight', output, first, end);
      return;
    }
    this.#put('tokensInFlight', 1, first, end);
    const timed = gaps.reduce((count, gap) => count + (gap > 0 ? 1 : 0), 0);
    let at = first;
    for (const gap of gaps) {
      const to = Math.min(end, at + gap);
      if (gap > 0) this.#put('outputTokens', (output - 1) / timed / gap, at, to);
      this.#put('tokensInFlight', (output - 1) / gaps.length, to, end);
      at = to;
    }
  }

  #span(start: number, end: number): void {
    this.firstMs = Math.min(this.firstMs, start);
    this.lastMs = Math.max(this.lastMs, end);
    while (this.lastMs / this.#stepMs >= MAX_STEPS - 1) this.#widen();
  }

  #widen(): void {
    for (const curve of this.#curves.values()) curve.widen();
    this.#stepMs *= 2;
  }

  #curve(name: CurveName): Curve {
    const found = this.#curves.get(name) ?? new Curve();
    this.#curves.set(name, found);
    return found;
  }

  #put(name: CurveName, rate: number, from: number, to: number): void {
    if (to <= from || rate === 0) return;
    this.#curve(name).add(rate, from / this.#stepMs, to / this.#stepMs, this.#stepMs);
  }

  /** The sums of all steps by curve; those that never were anything are empty. */
  sums(): Record<CurveName, Float64Array> {
    return Object.fromEntries(
      CURVES.map((name) => [name, this.#curves.get(name)?.values() ?? new Float64Array(0)]),
    ) as Record<CurveName, Float64Array>;
  }

  /** Takes another process's curves of the same clock in. */
  merge(json: LoadCurvesJson): void {
    if (json.firstMs === null || json.lastMs === null) return;
    while (this.#stepMs < json.stepMs) this.#widen();
    this.#span(json.firstMs, json.lastMs);
    this.streamed ||= json.streamed;
    const share = json.stepMs / this.#stepMs;
    for (const [name, { from, steps }] of Object.entries(json.curves)) {
      const bytes = inflateRawSync(Buffer.from(steps, 'base64'));
      const curve = this.#curve(name as CurveName);
      for (let i = 0; i * 4 < bytes.length; i++) curve.put(Math.floor((from + i) * share), bytes.readFloatLE(i * 4));
    }
  }

  toJSON(): LoadCurvesJson {
    const curves: LoadCurvesJson['curves'] = {};
    for (const [name, curve] of this.#curves) {
      const values = curve.values();
      const from = values.findIndex((value) => value !== 0);
      if (from < 0) continue;
      const to = values.findLastIndex((value) => value !== 0);
      const bytes = Buffer.from(Float32Array.from(values.subarray(from, to + 1)).buffer);
      curves[name] = { from, steps: deflateRawSync(bytes).toString('base64') };
    }
    const finite = (value: number): number | null => (Number.isFinite(value) ? value : null);
    const { streamed } = this;
    return { stepMs: this.#stepMs, firstMs: finite(this.firstMs), lastMs: finite(this.lastMs), streamed, curves };
  }
}
