/** The statistics of a run in slices of time, by the time of sending. */
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import type { RunClock } from '../clock.ts';
import type { Measured } from '../measure/measure.ts';
import { RunStats } from '../measure/run-stats.ts';
import { TIMESLICES_HEADER, timesliceRows } from './csv.ts';
import { figures } from './summary.ts';

/** Slices that are kept open. Older ones are packed, about 20 KB each, and opened again for a late reply. */
const MAX_OPEN = 8;
const NS_PER_MS = 1_000_000n;

/** A slice has few values, so its histograms are sparse: 30 dense ones would take 2 MB. */
const unpack = (json: ReturnType<RunStats['toJSON']>): RunStats => RunStats.fromJSON(json, true);

/** Limit for a run in one process. The length of a run without a schedule is unknown: its slices grow with it. */
export const MAX_SLICES = 1_000;

export class TimeSlices {
  #sliceMs: number;
  readonly #open = new Map<number, RunStats>();
  readonly #packed = new Map<number, string>();

  readonly #most: number;

  /**
   * @param sliceMs length of a slice
   * @param most maximum number of slices. Several processes must use the same length, and therefore no maximum
   */
  constructor(sliceMs: number, most = Number.POSITIVE_INFINITY) {
    this.#sliceMs = sliceMs;
    this.#most = most;
  }

  /** @param startAt start of the run's clock, a time of `performance.now()` */
  add(measured: Measured, clock: RunClock, startAt: number): void {
    const elapsed = Math.max(0, measured.exchange.startedAt - startAt);
    while (elapsed >= this.#most * this.#sliceMs) this.#halve();
    this.#slice(Math.floor(elapsed / this.#sliceMs)).add(measured, (at) => clock.epochMs(at));
  }

  #slice(index: number): RunStats {
    const open = this.#open.get(index);
    if (open) return open;
    const packed = this.#packed.get(index);
    this.#packed.delete(index);
    const stats = packed === undefined ? new RunStats(true) : unpack(JSON.parse(packed));
    if (this.#open.size >= MAX_OPEN) {
      const oldest = Math.min(...this.#open.keys());
      this.#packed.set(oldest, JSON.stringify(this.#open.get(oldest)));
      this.#open.delete(oldest);
    }
    this.#open.set(index, stats);
    return stats;
  }

  /** Joins the slices in pairs. */
  #halve(): void {
    const all = Object.entries(this.toJSON());
    this.#open.clear();
    this.#packed.clear();
    this.#sliceMs *= 2;
    for (const [index, json] of all) this.#slice(Math.floor(Number(index) / 2)).merge(unpack(json));
  }

  /** Adds the slices of another process with the same clock. */
  merge(slices: Record<string, ReturnType<RunStats['toJSON']>>): void {
    for (const [index, json] of Object.entries(slices)) this.#slice(Number(index)).merge(unpack(json));
  }

  toJSON(): Record<string, ReturnType<RunStats['toJSON']>> {
    const packed = [...this.#packed].map(([index, text]) => [index, JSON.parse(text)]);
    const open = [...this.#open].map(([index, stats]) => [index, stats.toJSON()]);
    return Object.fromEntries([...packed, ...open]);
  }

  /**
   * Writes both files, slice by slice. Slices without a request are omitted, as in AIPerf.
   *
   * @param startMs, lastEndMs start of the run's clock, and end of its last reply; epoch ms
   */
  async write(jsonPath: string, csvPath: string, startMs: number, lastEndMs: number): Promise<void> {
    const json = createWriteStream(jsonPath);
    const csv = createWriteStream(csvPath);
    json.write('{"timeslices":[');
    csv.write(`${TIMESLICES_HEADER}\n`);
    const indexes = [...this.#open.keys(), ...this.#packed.keys()].sort((a, b) => a - b);
    const startNs = BigInt(Math.round(startMs * 1000)) * 1000n;
    for (const [position, index] of indexes.entries()) {
      const stats = this.#open.get(index) ?? unpack(JSON.parse(this.#packed.get(index) ?? '{}'));
      const from = startNs + BigInt(Math.round(index * this.#sliceMs)) * NS_PER_MS;
      const fromMs = index * this.#sliceMs;
      // The last slice ends with the run and is marked: otherwise the time after the end would lower its rates.
      const toMs = Math.min(fromMs + this.#sliceMs, lastEndMs - startMs);
      const complete = toMs === fromMs + this.#sliceMs;
      const to = from + BigInt(Math.round((toMs - fromMs) * 1000)) * 1000n;
      const found = figures(stats, { windowSeconds: (toMs - fromMs) / 1000, scheduled: false, slice: true });
      const body = JSON.stringify(Object.fromEntries(found.results)).slice(1);
      const partly = complete ? '' : '"is_complete":false,';
      json.write(`${position === 0 ? '' : ','}{"start_ns":${from},"end_ns":${to},${partly}${body}`);
      csv.write(`${timesliceRows(position, String(from), String(to), found).join('\n')}\n`);
    }
    json.end(']}\n');
    csv.end();
    await Promise.all([once(json, 'finish'), once(csv, 'finish')]);
  }
}
